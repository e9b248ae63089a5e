"""The figures to reach: what the report's first table has a row for, and which benchmarks are measured for it.

To add one, add a Figure; to add a size, add it to operators.cpp or programs.cpp (or mark a conformance case as a
benchmark) and let a pattern match its kernel/name/dtype.
"""
import fnmatch
from dataclasses import dataclass

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "u8": 1}


@dataclass
class Reach:
    """`of` at least (us, host_us: at most) `value` for every benchmark that a pattern matches.

    of: "bandwidth", the rate over the copy bandwidth of the run; "us" and "host_us", microseconds in all and of host
    time; "cuda", our time there, beside this one in one process, over ours; else "quickest" of all rivals, or the quickest
    of those whose names begin so: its time over ours. Ours is the quicker of called and, in short rows, replayed.
    """
    of: str
    value: float
    patterns: tuple

    def matches(self, key):
        """Of kernel/name/dtype."""
        return any(fnmatch.fnmatchcase(key, p) for p in self.patterns)


@dataclass
class Figure:
    target: str             # device: cpu, cuda, opencl
    work: str
    reaches: tuple
    quick: tuple = ()       # the patterns measured by --quick


SHORT, LONG = (32, 128, 512, 1024, 2048, 4096, 8192), (16384, 32768, 65536)
SOFTMAX = ("softmax/", "log_softmax/", "softmax_grad/", "log_softmax_grad/")


def softmaxes(columns):
    return tuple(f"{kernel}{(1 << 26) // c}x{c}/*" for kernel in SOFTMAX for c in columns)


LAYERS = tuple(f"matmul/linear_*x{size}/f32" for size in ("64x128", "1024x1024", "4096x4096"))
SKINNY = tuple(f"matmul/{size}/f32" for size in ("1x4096x4096", "8x4096x4096", "32x4096x4096", "4096x4096x1",
                                                "256x256x256"))

CUDA = (
    Figure("cuda", "element-wise and fused broadcast chains, 64M elements, f32, f16, bf16",
           (Reach("bandwidth", 0.95, ("add/64M/*", "gelu/64M/*", "exp/64M/*", "copy/64M/*", "add/row_*",
                                      "fused_chain/*")),),
           ("add/64M/f32", "fused_chain/row_*/f16")),
    Figure("cuda", "a chain of three operators as one kernel", (Reach("torch eager", 2.0, ("fused_chain/*",)),)),
    Figure("cuda", "permutes and transposes", (Reach("bandwidth", 0.85, ("copy/permute_*_*",)),)),
    Figure("cuda", "sum, max, mean over rows, columns, all; odd sizes too",
           (Reach("bandwidth", 0.92, ("sum/*638*x40*/f32", "max/*638*x40*/f32", "mean/*638*x40*/f32",
                                      "*/all_67108864/f32")),
            Reach("torch", 1.0, ("sum/*638*x40*/f32", "max/*638*x40*/f32", "mean/*638*x40*/f32",
                                 "*/all_67108864/f32")))),
    Figure("cuda", "argmax over rows", (Reach("torch", 1.2, ("argmax/rows_*/f32",)),), ("argmax/rows_16384x4096/f32",)),
    Figure("cuda", "softmax and log_softmax, forward and backward, rows of 32 to 8192",
           (Reach("bandwidth", 0.92, softmaxes(SHORT)),)),
    Figure("cuda", "the same, rows of 16384 to 65536",
           (Reach("bandwidth", 0.85, softmaxes(LONG)),)),
    Figure("cuda", "the same, all rows", (Reach("torch", 1.0, softmaxes(SHORT + LONG)),)),
    Figure("cuda", "the same, rows of 4096 and more",
           (Reach("torch", 1.4, softmaxes((4096, 8192) + LONG)),)),
    Figure("cuda", "softmax cross-entropy with its gradient, 8192×50257",
           (Reach("torch eager", 1.5, ("cross_entropy/training_8192x50257/*",)),)),
    Figure("cuda", "matmul 512 to 8192, all four transposes, strict f32",
           (Reach("torch", 0.95, tuple(f"matmul/{p}{n}x{n}x{n}/f32" for n in (512, 1024, 2048, 4096, 8192)
                                       for p in ("", "nt_", "tn_", "tt_"))),)),
    Figure("cuda", "matmul 8192×64×8192, 1000×999×1001, 4095×4097×4099, strict f32",
           (Reach("torch", 0.85, ("matmul/8192x64x8192/f32", "matmul/1000x999x1001/f32",
                                  "matmul/4095x4097x4099/f32")),)),
    Figure("cuda", "matmul of 1, 8 and 32 rows and of one column by 4096×4096, and 256×256×256",
           (Reach("quickest", 1.0, SKINNY),), ("matmul/1x4096x4096/f32",)),
    Figure("cuda", "matmul with bias and GELU fused, batches of 1 to 64",
           (Reach("torch eager", 2.0, LAYERS), Reach("quickest", 1.0, LAYERS)), ("matmul/linear_gelu_1x1024x1024/f32",)),
    Figure("cuda", "the same where the weights' bytes are the limit",
           (Reach("bandwidth", 0.85, ("matmul/linear_*x4096x4096/f32",)),)),
    Figure("cuda", "matmul through cuBLASLt: f32, TF32, bf16, f16",
           (Reach("torch", 0.98, ("matmul_cublaslt/strict_[0-9]*", "matmul_cublaslt/tf32_[0-9]*")),)),
    Figure("cuda", "the same with bias and ReLU fused",
           (Reach("torch eager", 1.1, ("matmul_cublaslt/*_linear_relu_*",)),)),
    Figure("cuda", "Adam over 100 M parameters in 200 tensors",
           (Reach("bandwidth", 0.9, ("adam/100M_in_200/*",)), Reach("torch", 1.0, ("adam/100M_in_200/*",)))),
    Figure("cuda", "host time of one operator on 1 K elements, µs", (Reach("host_us", 3.0, ("add/1K/f32",)),)),
    Figure("cuda", "one operator on 1 K elements", (Reach("quickest", 1.0, ("add/1K/f32",)),), ("add/1K/f32",)),
    Figure("cuda", "one operator in a replayed graph, host and device, µs", (Reach("us", 1.3, ("graph/chain_of_100/f32",)),)),
    Figure("cuda", "training step of the demo's MLP, batch 64, as a graph",
           (Reach("torch eager", 5.0, ("mlp_step/batch_64/*",)),
            Reach("torch graph", 1.0, ("mlp_step/batch_64/*",)),
            Reach("quickest", 1.0, ("mlp_step/batch_64/*",))), ("mlp_step/batch_64/*",)),
    Figure("cuda", "training step of a convolutional network on 28 × 28 pixels, our kernels alone",
           (Reach("torch", 1.0, ("cnn_step/own_batch_64/*",)), Reach("torch", 0.85, ("cnn_step/own_batch_512/*",))),
           ("cnn_step/own_batch_64/*",)),
    Figure("cuda", "the same, with the vendor's where it is quicker", (Reach("torch", 1.0, ("cnn_step/batch_*/*",)),),
           ("cnn_step/batch_64/*",)),
    Figure("cuda", "training step of a transformer of 6 layers, 384 wide", (Reach("torch", 1.0, ("transformer_step/*",)),)),
    Figure("cuda", "training step of gated recurrent units", (Reach("torch", 1.5, ("gru_step/*",)),), ("gru_step/*",)),
    Figure("cuda", "the hybrid trainer's forecasts: encoding a state, correcting a forecast, alone and one after the other, µs",
           (Reach("us", 4.0, ("encode_state/*", "apply_corrections/*", "corrections_in_turn/*")),), ("encode_state/*",)),
    Figure("cuda", "rolling its ensemble out by 10 steps, µs", (Reach("us", 100.0, ("gru_rollout/*",)),),
           ("gru_rollout/*",)),
    Figure("cuda", "compressing a residual, µs", (Reach("us", 600.0, ("compress_residuals/*",)),)),
    Figure("cuda", "all of these as one graph, µs", (Reach("us", 800.0, ("forecast_chain/*",)),), ("forecast_chain/*",)),
)

CPU = (
    Figure("cpu", "matmul 256 to 2048", (Reach("OpenBLAS", 0.9, tuple(f"matmul/{n}x{n}x{n}/f32"
                                                                     for n in (256, 512, 1024, 2048))),),
           ("matmul/512x512x512/f32", "matmul/1024x1024x1024/f32")),
    Figure("cpu", "matmul 1000×999×1001, of 8 and 32 rows",
           (Reach("OpenBLAS", 0.9, ("matmul/1000x999x1001/f32", "matmul/8x4096x4096/f32", "matmul/32x4096x4096/f32")),),
           ("matmul/1000x999x1001/f32",)),
    Figure("cpu", "matmul of one row and of one column, OpenBLAS's sgemv too",
           (Reach("OpenBLAS", 0.9, ("matmul/1x4096x4096/f32", "matmul/4096x4096x1/f32")),),
           ("matmul/1x4096x4096/f32", "matmul/4096x4096x1/f32")),
    Figure("cpu", "skinny and small products",
           (Reach("quickest", 0.9, ("matmul/256x256x256/f32", "matmul/1x4096x4096/f32", "matmul/8x4096x4096/f32",
                                    "matmul/32x4096x4096/f32", "matmul/4096x4096x1/f32")),)),
    Figure("cpu", "softmax and log_softmax", (Reach("ONNX Runtime", 1.0, ("softmax/16384x1024/f32",
                                                                          "softmax/131072x128/f32",
                                                                          "softmax/4096x4096/f32",
                                                                          "log_softmax/16384x1024/f32")),),
           ("softmax/16384x1024/f32",)),
    Figure("cpu", "gelu, exp, tanh, add", (Reach("ONNX Runtime", 1.0, ("gelu/16M/f32", "exp/16M/f32", "tanh/16M/f32",
                                                                       "add/16M/f32")),), ("gelu/16M/f32",)),
    Figure("cpu", "sum, max, mean over rows, columns, all",
           (Reach("ONNX Runtime", 1.0, ("sum/*_16384x1024/f32", "max/*_16384x1024/f32", "mean/*_16384x1024/f32",
                                        "sum/all_of_16M/f32", "max/all_of_16M/f32", "mean/all_of_16M/f32",
                                        "min/all_of_16M/f32", "sum/*_16383x4097/f32")),),
           ("sum/rows_16384x1024/f32", "sum/columns_16384x1024/f32")),
    Figure("cpu", "transposing copy of 4096×4096", (Reach("ONNX Runtime", 1.0, ("copy/permute_4096x4096/f32",)),)),
    Figure("cpu", "a chain of three operators as one kernel",
           (Reach("ONNX Runtime", 1.0, ("fused_chain/row_16384x4096/f32",)),)),
    Figure("cpu", "training step of the demo's MLP",
           (Reach("JAX", 1.0, ("mlp_step/batch_64/f32", "mlp_step/batch_128/f32")),
            Reach("torch", 1.0, ("mlp_step/batch_64/f32", "mlp_step/batch_128/f32"))), ("mlp_step/batch_64/f32",)),
    Figure("cpu", "training step of a convolutional network on 28 × 28 pixels", (Reach("torch", 1.0, ("cnn_step/batch_*/f32",)),),
           ("cnn_step/batch_64/f32",)),
    Figure("cpu", "training step of gated recurrent units", (Reach("torch", 1.0, ("gru_step/*",)),)),
    Figure("cpu", "the hybrid trainer's forecasts: encoding a state, rolling its ensemble out, correcting a forecast",
           (Reach("ONNX Runtime", 1.0, ("encode_state/*", "gru_rollout/*", "apply_corrections/*")),)),
    Figure("cpu", "compressing a residual, and all of these", (Reach("torch", 1.0, ("compress_residuals/*",
                                                                                    "forecast_chain/*")),)),
)

OPENCL = (
    Figure("opencl", "element-wise, chains, sums and softmax: CUDA's time over ours",
           (Reach("cuda", 0.9, ("add/64M/*", "fused_chain/*", "sum/*_16384x4096/f32", "softmax/16384x4096/f32")),),
           ("add/64M/f32", "fused_chain/row_*/f16")),
    Figure("opencl", "permutes and transposes: CUDA's time over ours", (Reach("cuda", 0.9, ("copy/permute_*_*",)),)),
    Figure("opencl", "argmax over rows: CUDA's time over ours", (Reach("cuda", 0.9, ("argmax/rows_*/f32",)),),
           ("argmax/rows_16384x4096/f32",)),
    Figure("opencl", "gradients of softmax, log_softmax and cross-entropy: CUDA's time over ours",
           (Reach("cuda", 0.9, ("softmax_grad/16384x4096/f32", "log_softmax_grad/16384x4096/f32",
                                "cross_entropy/training_8192x50257/f32")),)),
    Figure("opencl", "Adam over 100 M parameters in 200 tensors: CUDA's time over ours",
           (Reach("cuda", 0.9, ("adam/100M_in_200/*",)),)),
    Figure("opencl", "matmul: CUDA's time over ours",
           (Reach("cuda", 0.6, tuple(f"matmul/{n}x{n}x{n}/f32" for n in (1024, 2048, 4096))),)),
    Figure("opencl", "matmul with one or both operands transposed: CUDA's time over ours",
           (Reach("cuda", 0.6, tuple(f"matmul/{p}_{n}x{n}x{n}/f32" for p in ("nt", "tn", "tt") for n in (1024, 2048))),),
           ("matmul/nt_1024x1024x1024/f32",)),
    Figure("opencl", "the hybrid trainer's forecasts: CUDA's time over ours",
           (Reach("cuda", 0.6, ("encode_state/*", "gru_rollout/*", "compress_residuals/*", "apply_corrections/*",
                                "forecast_chain/*")),)),
)

ALL = CUDA + CPU + OPENCL


def patterns(target, quick=False):
    """What to measure on a device."""
    return [p for f in ALL if f.target == target for p in (f.quick if quick else (q for r in f.reaches
                                                                                   for q in r.patterns))]


def wants_host_time(benchmark):
    return benchmark.kernel == "graph" or (benchmark.kernel == "add" and benchmark.name.startswith("1K"))

"""Rivals on the CPU, f32 only: OpenBLAS (NumPy's own), ONNX Runtime, JAX and PyTorch; NumPy in double judges numbers.

OpenBLAS takes its AVX2 kernels on processors with AVX-512 that it doesn't know, so that there it is measured a second time,
told to take those for AVX-512.
"""
import contextlib
import ctypes
import gc
import glob
import os
import re
import shutil
import sys
import tempfile
import threading
import time

# OpenBLAS's threads spin for 2^26 clock ticks after a call and would take a core from whoever is timed next. 2^20 are
# still more than what lies between two calls of a batch.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
import numpy as np  # noqa: E402

from exact import ADAM, DTYPES, axes_of, axis_of, exact_values, is_float, transposes_of  # noqa: E402
from timing import Contender  # noqa: E402

ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112  # cblas.h
DTYPE_NAMES = {np.dtype(dtype).name: name for name, dtype in DTYPES.items()}


class OpenBlas:
    """cblas_sgemm of the OpenBLAS inside NumPy's wheel; with `core`, of a second copy that is told to take its kernels."""

    def __init__(self, core=None):
        folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
        library = glob.glob(os.path.join(folder, "libscipy_openblas64_*.so"))[0]
        if core:
            with tempfile.TemporaryDirectory() as copies:  # the same file would be the same library
                copy = shutil.copy(library, os.path.join(copies, f"openblas_{core}.so"))
                os.environ["OPENBLAS_CORETYPE"] = core
                self.c = ctypes.CDLL(copy)
                del os.environ["OPENBLAS_CORETYPE"]
        else:
            self.c = ctypes.CDLL(library)
        self.c.scipy_openblas_get_config64_.restype = ctypes.c_char_p
        self.c.scipy_openblas_get_corename64_.restype = ctypes.c_char_p
        words = self.c.scipy_openblas_get_config64_().decode().split()
        self.core = self.c.scipy_openblas_get_corename64_().decode()
        self.version = f"{words[1]} ({self.core} kernels)"

    @classmethod
    def all(cls):
        """{name: library}"""
        found = {"OpenBLAS": cls()}
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            has_avx512 = "avx512bw" in file.read()
        if has_avx512 and found["OpenBLAS"].core in ("Haswell", "Zen"):
            found["OpenBLAS SkylakeX"] = cls("SkylakeX")
        return found

    def calls(self, benchmark, sets):
        """{what beside the library's name: calls of the sets}: the product and, for a vector, its own routine."""
        transposed = transposes_of(benchmark.name)
        (m, k), (_, n) = (x.shape[::-1] if t else x.shape for x, t in zip(sets[0], transposed))
        found = {"": [self.gemm(m, k, n, transposed, *x) for x in sets]}
        if 1 in (m, n) and not any(transposed):
            found[" sgemv"] = [self.gemv(x[1], x[0], True) if m == 1 else self.gemv(x[0], x[1], False) for x in sets]
        return found

    def gemm(self, m, k, n, transposed, a, b):
        y = np.empty((m, n), np.float32)
        big = ctypes.c_int64
        at_a, at_b, at_y = (ctypes.c_void_p(array.ctypes.data) for array in (a, b, y))
        arguments = (ROW_MAJOR, *(TRANSPOSED if t else PLAIN for t in transposed), big(m), big(n), big(k),
                     ctypes.c_float(1), at_a, big(a.shape[1]), at_b, big(b.shape[1]), ctypes.c_float(0), at_y, big(n))
        call = self.c.scipy_cblas_sgemm64_

        def run(_kept=(a, b)):
            call(*arguments)
            return y
        return run

    def gemv(self, matrix, vector, transposed):
        y = np.empty((1, matrix.shape[1]) if transposed else (matrix.shape[0], 1), np.float32)
        big = ctypes.c_int64
        at_matrix, at_vector, at_y = (ctypes.c_void_p(array.ctypes.data) for array in (matrix, vector, y))
        arguments = (ROW_MAJOR, TRANSPOSED if transposed else PLAIN, big(matrix.shape[0]), big(matrix.shape[1]),
                     ctypes.c_float(1), at_matrix, big(matrix.shape[1]), at_vector, big(1), ctypes.c_float(0), at_y,
                     big(1))
        call = self.c.scipy_cblas_sgemv64_

        def run(_kept=(matrix, vector)):
            call(*arguments)
            return y
        return run


class OnnxRuntime:
    def __init__(self, threads):
        import onnxruntime
        self.ort, self.threads = onnxruntime, threads
        self.version = onnxruntime.__version__

    def nodes(self, benchmark, shapes):
        """(operator, inputs, outputs, attributes) of the benchmark, from x0, x1, … to y; None where there is none."""
        from onnx import helper
        kernel, name = benchmark.kernel, benchmark.name
        one = helper.make_node
        plain = {"exp": "Exp", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "gelu": "Gelu", "log": "Log",
                 "sqrt": "Sqrt", "neg": "Neg", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}
        names = [f"x{i}" for i in range(len(shapes))]
        if kernel in plain:
            return [one(plain[kernel], names, ["y"])]
        if kernel in ("softmax", "log_softmax"):
            return [one({"softmax": "Softmax", "log_softmax": "LogSoftmax"}[kernel], names, ["y"], axis=-1)]
        if kernel in ("argmax", "argmin"):
            operator = {"argmax": "ArgMax", "argmin": "ArgMin"}[kernel]
            return [one(operator, names, ["y"], axis=axis_of(name), keepdims=0)] if axis_of(name) is not None else None
        if kernel in ("sum", "mean", "max", "min"):
            operator = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}[kernel]
            axis = axis_of(name)
            if axis is None:
                return [one(operator, names, ["y"], keepdims=0)]
            value = helper.make_tensor("axes", 7, [1], [axis])
            return [one("Constant", [], ["axes"], value=value), one(operator, names + ["axes"], ["y"], keepdims=0)]
        if kernel == "copy" and name.startswith("permute"):
            return [one("Transpose", names, ["y"], perm=axes_of(name))]
        if kernel == "matmul" and name.startswith("linear"):
            return [one("Gemm", names, ["s"], transB=1), one("Gelu" if "_gelu_" in name else "Relu", ["s"], ["y"])]
        if kernel == "matmul":
            a, b = transposes_of(name)
            return [one("Gemm", names, ["y"], transA=int(a), transB=int(b))]
        if kernel == "fused_chain":
            return [one("Add", ["x0", "x1"], ["s"]), one("Gelu", ["s"], ["g"]), one("Mul", ["g", "x2"], ["y"])]
        if kernel == "encode_state":
            return [one("Gemm", names, ["s"], transB=1), one("Relu", ["s"], ["y"])]
        if kernel == "apply_corrections":
            return [one("Mul", ["x1", "x3"], ["left"]), one("Gemm", ["left", "x2", "x0"], ["y"], transB=1)]
        if kernel == "gru_rollout":
            return self.roll_out(helper)
        return None

    def roll_out(self, helper, steps=10):
        """exact.roll_out as single operators: ONNX's GRU wants an input and one network."""
        def one(operator, inputs, *outputs, **attributes):
            nodes.append(helper.make_node(operator, inputs, list(outputs), **attributes))
            return outputs[0]
        nodes = []
        for axis in (0, 1):
            one("Constant", [], f"axis{axis}", value=helper.make_tensor(f"axis{axis}", 7, [1], [axis]))
        for name in ("x2", "x3"):
            one("Unsqueeze", [name, "axis1"], f"{name}_rows")
        one("Split", ["x2_rows"], "x_r", "x_z", "x_n", axis=-1, num_outputs=3)
        h, states = "x0", []
        for t in range(steps):
            a = one("Add", [one("MatMul", [h, "x1"], f"m{t}"), "x3_rows"], f"a{t}")
            one("Split", [a], f"r{t}", f"z{t}", f"n{t}", axis=-1, num_outputs=3)
            gates = [one("Sigmoid", [one("Add", [f"x_{g}", f"{g}{t}"], f"{g}_sum{t}")], f"{g}_gate{t}") for g in "rz"]
            reset = one("Mul", [gates[0], f"n{t}"], f"reset{t}")
            candidate = one("Tanh", [one("Add", ["x_n", reset], f"n_sum{t}")], f"candidate{t}")
            kept = one("Mul", [gates[1], one("Sub", [h, candidate], f"off{t}")], f"kept{t}")
            h = one("Add", [candidate, kept], f"h{t}")
            states.append(one("Unsqueeze", [h, "axis0"], f"state{t}"))
        one("Concat", states, "y", axis=0)
        return nodes

    def calls(self, benchmark, sets, shape, dtype):
        nodes = self.nodes(benchmark, [x.shape for x in sets[0]])
        return self.calls_of_nodes(nodes, sets, shape, dtype) if nodes else None

    def calls_of_nodes(self, nodes, sets, shape, dtype, constants=(), opset=20):
        """Of nodes from x0, x1, … to y. Inputs at `constants` are the model's own, which it may rearrange beforehand."""
        from onnx import TensorProto, helper, numpy_helper

        def kind(dtype):
            return TensorProto.INT64 if dtype == np.int64 else TensorProto.FLOAT
        given = [i for i in range(len(sets[0])) if i not in constants]
        graph = helper.make_graph(
            nodes, "benchmark", [helper.make_tensor_value_info(f"x{i}", kind(sets[0][i].dtype), sets[0][i].shape) for i in given],
            [helper.make_tensor_value_info("y", kind(dtype), shape)],
            [numpy_helper.from_array(sets[0][i], f"x{i}") for i in constants])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

        def bound(inputs):
            binding = session.io_binding()
            for i in given:
                binding.bind_cpu_input(f"x{i}", inputs[i])
            target = self.ort.OrtValue.ortvalue_from_numpy(np.empty(shape, dtype))
            binding.bind_ortvalue_output("y", target)

            def run(_kept=inputs):
                session.run_with_iobinding(binding)
                return target
            return run
        return [bound(inputs) for inputs in sets]


class Jax:
    def __init__(self):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax
        self.jax, self.version = jax, jax.__version__

    def calls(self, benchmark, sets):
        jax, jnp = self.jax, self.jax.numpy

        def mean_loss(logits, labels):
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()
        if benchmark.kernel == "fused_chain":
            function = jax.jit(lambda a, b, c: jax.nn.gelu(a + b, approximate=False) * c)
        elif benchmark.kernel == "cross_entropy" and benchmark.name.startswith("training"):
            function = jax.jit(jax.value_and_grad(mean_loss))
        elif benchmark.kernel == "mlp_step":
            return [self.mlp_step(mean_loss, [jax.device_put(array) for array in sets[0]])]
        else:
            return None

        def bound(x):
            return lambda: jax.block_until_ready(function(*x))
        return [bound([jax.device_put(array) for array in x]) for x in sets]

    def mlp_step(self, mean_loss, x):
        jax, jnp = self.jax, self.jax.numpy
        pixels, labels, *layers = x

        def loss_of(parameters):
            y = pixels
            for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2]):
                y = jnp.maximum(y @ weight.T + bias, 0)
            return mean_loss(y @ parameters[-2].T + parameters[-1], labels)

        def step(state):
            parameters, m, v, t = state
            t = t + 1
            loss, g = jax.value_and_grad(loss_of)(parameters)
            m = [ADAM["beta1"] * a + (1 - ADAM["beta1"]) * b for a, b in zip(m, g)]
            v = [ADAM["beta2"] * a + (1 - ADAM["beta2"]) * b * b for a, b in zip(v, g)]
            scale = [1 / (1 - ADAM[b] ** t) for b in ("beta1", "beta2")]
            parameters = [w - ADAM["rate"] * a * scale[0] / (jnp.sqrt(b * scale[1]) + ADAM["eps"])
                          for w, a, b in zip(parameters, m, v)]
            return (parameters, m, v, t), loss
        step = jax.jit(step, donate_argnums=0)
        state = [([jnp.array(p) for p in layers], [jnp.zeros_like(p) for p in layers],
                  [jnp.zeros_like(p) for p in layers], jnp.zeros(()))]

        def call():
            state[0], loss = step(state[0])
            return loss.block_until_ready()
        return call


@contextlib.contextmanager
def quiet():
    """Nothing to standard error, from C++ neither."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def debian_torch(options, threads, rival_class=None):
    """A TorchRival, or one of `rival_class(device, options)`, by the PyTorch of whichever Python has one: this, else Debian's package, whose modules run here too but for the passage to
    NumPy, which nothing here needs."""
    with quiet():
        sys.path.append("/usr/lib/python3/dist-packages")
        try:
            import torch
            from torch_rival import TorchRival
        except ImportError as error:
            raise RuntimeError(f"no PyTorch for Python {sys.version.split()[0]} ({error}): install Debian's python3-torch, "
                               "as ./dev bench does, or leave pytorch out of --against") from error
        finally:
            sys.path.remove("/usr/lib/python3/dist-packages")
        torch.set_num_threads(threads)
        rival = (rival_class or TorchRival)("cpu", options)
    blas = re.search(r"/([\w-]*blas[\w-]*)/libblas", open("/proc/self/maps", encoding="utf-8").read())
    onednn = re.search(r"MKL-DNN v([\d.]+)", torch.__config__.show())
    libraries = ([blas.group(1)] if blas else []) + ([f"oneDNN {onednn.group(1)}"] if onednn else [])
    rival.version = torch.__version__ + (f" ({', '.join(libraries)})" if libraries else "")
    return rival


class CpuRivals:
    """Contenders among OpenBLAS, ONNX Runtime, JAX and PyTorch, by name; with none of them only the judge of numbers."""

    def __init__(self, against, threads, options, torch_class=None, onnx_class=None):
        self.random = np.random.default_rng(1)
        self.threads = threads
        self.torch = debian_torch(options, threads, torch_class) if "pytorch" in against else None
        self.openblas = OpenBlas.all() if "openblas" in against else {}
        self.onnxruntime = (onnx_class or OnnxRuntime)(threads) if "onnxruntime" in against else None
        self.jax = Jax() if "jax" in against else None
        self.versions = {"NumPy": np.__version__}
        for label, rival in (*self.openblas.items(), ("ONNX Runtime", self.onnxruntime), ("JAX", self.jax),
                             ("PyTorch", self.torch)):
            if rival:
                self.versions[label] = rival.version

    def cache_bytes(self):
        """Of the processor's last cache, as Linux tells; None where it doesn't."""
        found = {}
        for folder in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*"):
            try:
                level, size = (open(os.path.join(folder, name), encoding="utf-8").read().strip()
                               for name in ("level", "size"))
            except OSError:
                continue
            found[int(level)] = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1], 0)
        return found[max(found)] if found else None

    def wrap(self, described):
        dtype = np.dtype(DTYPES[described["dtype"]])
        count = int(np.prod(described["shape"], dtype=np.int64))
        memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(described["address"])
        return np.frombuffer(memory, dtype).reshape(described["shape"])

    def inputs(self, run):
        """Fills the run's sets of inputs with the same random numbers; returns for each set arrays of the same."""
        first = []
        for i, (spec, described) in enumerate(zip(run.benchmark.inputs, run.tensors("inputs"))):
            shape, dtype = described["shape"], np.dtype(DTYPES[described["dtype"]])
            x = self.wrap(described) if "address" in described else np.empty(shape, dtype)
            if is_float(x):
                x[...] = self.random.random(shape, np.float32) * (spec["high"] - spec["low"]) + spec["low"]
            else:
                x[...] = self.random.integers(int(spec["low"]), int(spec["high"]) + 1, shape)
            if "address" not in described:
                run.write(i, x.ctypes.data)
            first.append(x)
        run.replicate()
        return [first] + [[self.wrap(d) if "address" in d else x.copy() for d, x in zip(run.tensors("inputs", i), first)]
                          for i in range(1, run.sets)]

    def give(self, inputs, run):
        """Writes a set of inputs into a run on another device."""
        for i, x in enumerate(inputs):
            run.write(i, x.ctypes.data)
        run.replicate()

    def outputs(self, run):
        found = []
        for i, described in enumerate(run.tensors("outputs")):
            if "address" in described:
                found.append(self.wrap(described))
            else:
                found.append(np.empty(described["shape"], DTYPES[described["dtype"]]))
                run.read(i, found[-1].ctypes.data)
        return found

    def exact(self, benchmark, inputs):
        """By NumPy; where it has no formula, by PyTorch."""
        found = exact_values(benchmark, [x.astype(np.float64) if is_float(x) else x for x in inputs])
        if found is None and self.torch:
            found = self.torch.exact(benchmark, self.torch_sets([inputs])[0])
            found = found and [tuple(map(self.numbers, both)) for both in found]
        return found

    def numbers(self, y):
        """An array of what a rival returned."""
        if hasattr(y, "element_size"):  # PyTorch's, which may be unable to give it to this NumPy
            y = y.detach().contiguous()
            return self.wrap({"shape": y.shape, "address": y.data_ptr(), "dtype": DTYPE_NAMES[str(y.dtype)[6:]]}).copy()
        return y.numpy() if hasattr(y, "numpy") else np.asarray(y)

    def error(self, ours, exact):
        """The largest error of an output, relative to its magnitude; of indices, how many are others."""
        worst = 0.0
        for y, (value, magnitude) in zip(ours if isinstance(ours, (list, tuple)) else [ours], exact):
            y = self.numbers(y)
            if y.shape != value.shape:
                return float("inf")
            if not is_float(y):
                worst = max(worst, float((y != value).mean()))
            else:
                difference = np.abs(y.astype(np.float64) - value) / np.maximum(magnitude, 1e-30)
                worst = max(worst, float(np.nan_to_num(difference, nan=np.inf).max()))
        return worst

    def synchronize(self):
        pass

    def clean(self):
        gc.collect()

    def compute_something(self):
        """Raises RuntimeError where PyTorch no longer computes."""
        if self.torch:
            self.torch.compute_something()

    def contenders(self, benchmark, sets, short):
        """({name: Contender}, {name: why there is none})"""
        calls, found, missing = {}, {}, {}
        if not (self.openblas or self.onnxruntime or self.jax or self.torch):
            return {}, {"rival": "measured alone (--against numpy)"}
        if benchmark.kernel == "matmul" and not benchmark.name.startswith("linear"):
            for name, library in self.openblas.items():
                calls.update({name + what: of_sets for what, of_sets in library.calls(benchmark, sets).items()})
        exact = None
        if self.onnxruntime and not benchmark.stateful and benchmark.kernel != "cross_entropy":
            exact = self.exact(benchmark, sets[0])
        if exact:
            value = exact[0][0]
            dtype = np.float32 if value.dtype.kind == "f" else value.dtype
            calls["ONNX Runtime"] = self.onnxruntime.calls(benchmark, sets, value.shape, dtype)
        if self.jax:
            calls["JAX"] = self.jax.calls(benchmark, sets)
        if self.torch:
            found, missing = self.torch.contenders(benchmark, self.torch_sets(sets), short)
        return {**{name: Contender(of_sets) for name, of_sets in calls.items() if of_sets}, **found}, missing

    def torch_sets(self, sets):
        """PyTorch's tensors on the same memory."""
        return [[self.torch.wrap({"shape": x.shape, "dtype": DTYPE_NAMES[x.dtype.name], "address": x.ctypes.data})
                 for x in inputs] for inputs in sets]

    def bandwidth(self):
        """Bytes per second of a copy by all threads, read and written: of 64M floats or twice the cache, if that's more."""
        source = np.ones(max(1 << 26, 2 * (self.cache_bytes() or 0) // 4), np.float32)
        target = np.empty_like(source)
        parts = [slice(i * len(source) // self.threads, (i + 1) * len(source) // self.threads)
                 for i in range(self.threads)]

        def seconds():
            workers = [threading.Thread(target=np.copyto, args=(target[part], source[part])) for part in parts]
            start = time.perf_counter()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            return time.perf_counter() - start
        seconds()
        return 2 * source.nbytes / sorted(seconds() for _ in range(5))[2]

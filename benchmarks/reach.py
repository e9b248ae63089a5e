"""What is to be reached over random draws (draws.py): the table of goals, by target. A line speaks of at least DRAWS draws of a
family; of each, the quickest time of `against` over the quickest of `ours`. One that asks for nothing shows what was measured."""
from dataclasses import dataclass

DRAWS = 100
# ms of our CUDA kernels. NVIDIA's OpenCL takes several µs to enqueue a kernel, most draws less by CUDA's graphs: of these and
# longer ones the report says the geometric mean by itself.
LONG_ENOUGH_FOR_OPENCL = 0.02


@dataclass(frozen=True)
class Line:
    target: str             # cpu, cuda, opencl
    work: str
    family: str
    against: tuple          # contenders whose names are these or begin with these and a space; () is every rival
    geometric_mean: float = None
    tenth_percentile: float = None  # None: not asked for
    worst: float = None
    ours: tuple = ("ashlar", "ashlar graph")
    rivals: str = "the quickest rival"


NETWORKS = {"norms": "layer_norm, rms_norm, group_norm", "batch_norm": "batch_norm in training", "activations": "activations",
            "losses": "losses", "convolutions": "conv2d and its gradients", "windows": "depthwise conv2d, pooling, interpolation",
            "attention": "attention", "recurrent": "GRU, LSTM", "indexing": "gather, scatter_add, embedding, dropout"}
OWN = ("ashlar own", "ashlar own graph")
ALL = (
    Line("cuda", "elementwise, broadcast", "elementwise", (), 1.1, 0.95, 0.8),
    Line("cuda", "reductions, argmax", "reductions", (), 1.2, 0.95, 0.7),
    Line("cuda", "softmax and its kin, cross-entropy", "rows", (), 1.3, 0.95, 0.8),
    Line("cuda", "permutes, copies of views", "permutes", (), 1.3, 0.9, 0.7),
    Line("cuda", "products f32 strict, our kernels alone", "products_f32", ("torch eager", "torch graph"), 0.97, 0.85, 0.6,
         ours=OWN, rivals="cuBLAS, by PyTorch"),
    Line("cuda", "products, automatic, all dtypes", "products", (), 1.02, 0.97, 0.9),
    Line("cuda", "products + bias + activation", "layers", ("torch eager",), 1.3, 1.0, 0.8, ours=("ashlar",),
         rivals="eager"),
    Line("cuda", "eager launches below 10 µs of work", "launches", ("torch eager",), 1.05, 1.0, 0.9, ours=("ashlar",),
         rivals="eager"),
    Line("cuda", "the same in replayed graphs", "launches", ("torch graph",), 1.2, 1.0, 0.9, ours=("ashlar graph",),
         rivals="PyTorch's graphs"),
    Line("cpu", "products", "products_f32", (), 0.95, 0.85, 0.6),
    *(Line("cpu", work, family, (), 1.1, 0.9, 0.7) for work, family in (
        ("elementwise, broadcast", "elementwise"), ("reductions, argmax", "reductions"),
        ("softmax and its kin, cross-entropy", "rows"), ("permutes, copies of views", "permutes"),
        ("products + bias + activation", "layers"), ("short calls", "launches"))),
    *(Line("cuda", NETWORKS[family], family, (), mean, tenth) for family, mean, tenth in (
        ("norms", 1.1, 0.95), ("batch_norm", 1.0, 0.85), ("activations", 1.0, 0.8), ("losses", 1.0, 0.8),
        ("convolutions", 0.85, 0.6), ("windows", 1.0, 0.8), ("attention", 1.0, 0.8), ("recurrent", 1.0, 0.8),
        ("indexing", 1.0, 0.8))),
    Line("cuda", "conv2d and its gradients, our kernels alone", "convolutions", (), 0.85, 0.6, ours=OWN),
    *(Line("cpu", NETWORKS[family], family, (), mean) for family, mean in (
        ("norms", 1.0), ("batch_norm", 1.0), ("activations", 1.0), ("losses", 1.0), ("convolutions", 0.9), ("windows", None),
        ("attention", 1.0), ("recurrent", 1.0), ("indexing", None))),
    *(Line("opencl", work, family, ("cuda",), least, rivals="our CUDA kernels") for work, family, least in (
        ("elementwise, broadcast", "elementwise", 0.85), ("reductions, argmax", "reductions", 0.85),
        ("softmax and its kin, cross-entropy", "rows", 0.85), ("permutes, copies of views", "permutes", 0.85),
        ("products, every layout", "products", 0.65), ("products + bias + activation", "layers", 0.65),
        *((NETWORKS[family], family, least) for family, least in (
            ("norms", 0.8), ("batch_norm", 0.8), ("activations", 0.8), ("losses", 0.8), ("convolutions", 0.5), ("attention", 0.5))))),
)

"""Rivals on the CPU, f32 only: OpenBLAS (NumPy's own), ONNX Runtime and JAX; NumPy in double as judge of numbers.

OpenBLAS takes its AVX2 kernels on processors with AVX-512 that it doesn't know, so that there it is measured a second time,
told to take those for AVX-512.
"""
import ctypes
import glob
import os
import re
import shutil
import tempfile
import threading
import time

# OpenBLAS's threads spin for 2^26 clock ticks after a call and would take a core from whoever is timed next. 2^20 are
# still more than what lies between two calls of a batch.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
import numpy as np  # noqa: E402
from scipy.special import erf  # noqa: E402

NUMPY_DTYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "u8": np.uint8}
ADAM = {"rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}


# ---- exact values -----------------------------------------------------------------------------------------------------
def gelu(x):
    return x * 0.5 * (1 + erf(x / np.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def cross_entropy(logits, labels):
    """Mean loss and its gradient."""
    rows = np.arange(len(labels))
    gradient = softmax(logits)
    loss = -log_softmax(logits)[rows, labels].mean()
    gradient[rows, labels] -= 1
    return loss, gradient / len(labels)


def adam_step(state, parameters, gradients, t):
    for i, (w, g) in enumerate(zip(parameters, gradients)):
        m, v = state[i]
        m += (1 - ADAM["beta1"]) * (g - m)
        v += (1 - ADAM["beta2"]) * (g * g - v)
        w -= ADAM["rate"] * (m / (1 - ADAM["beta1"] ** t)) / (np.sqrt(v / (1 - ADAM["beta2"] ** t)) + ADAM["eps"])


def mlp_losses(steps, pixels, labels, *layers):
    """The loss before each of the first Adam steps."""
    parameters = [layer.copy() for layer in layers]
    state = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    losses = []
    for t in range(1, steps + 1):
        activations = [pixels]
        for weight, bias in zip(parameters[::2], parameters[1::2]):
            activations.append(np.maximum(activations[-1] @ weight.T + bias, 0))
        activations[-1] = activations[-2] @ parameters[-2].T + parameters[-1]
        loss, gradient = cross_entropy(activations[-1], labels)
        losses.append(loss)
        gradients = []
        for i in range(len(parameters) // 2 - 1, -1, -1):
            gradients = [gradient.T @ activations[i], gradient.sum(axis=0)] + gradients
            gradient = (gradient @ parameters[2 * i]) * (activations[i] > 0)
        adam_step(state, parameters, gradients, t)
    return losses


UNARY = {"neg": np.negative, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
         "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0), "gelu": gelu,
         "silu": lambda x: x / (1 + np.exp(-x))}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
          "minimum": np.minimum}
REDUCTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "argmax": np.argmax}
ROWS = {"softmax": softmax, "log_softmax": log_softmax,
        "softmax_grad": lambda dy, y: y * (dy - (dy * y).sum(axis=-1, keepdims=True)),
        "log_softmax_grad": lambda dy, y: dy - np.exp(y) * dy.sum(axis=-1, keepdims=True)}


def axis_of(name):
    return {"rows": 1, "columns": 0, "all": None}[name.split("_")[0]]


def axes_of(name):
    order = re.match(r"permute_([0-9]+)_", name)
    return [int(axis) for axis in order.group(1)] if order else [1, 0]


def transposes_of(name):
    found = re.match(r"([nt])([nt])_", name)
    return tuple(letter == "t" for letter in found.groups()) if found else (False, False)


def exact_values(benchmark, x):
    """[(value, magnitude)], or None. `x`: inputs, floats as double."""
    kernel, name = benchmark.kernel, benchmark.name
    if kernel in UNARY or kernel in BINARY:
        values = [(UNARY.get(kernel) or BINARY[kernel])(*x)]
    elif kernel in REDUCTIONS:
        values = [REDUCTIONS[kernel](x[0], axis=axis_of(name))]
        if kernel in ("sum", "mean"):
            return [(values[0], REDUCTIONS[kernel](np.abs(x[0]), axis=axis_of(name)))]
    elif kernel in ROWS:
        values = [ROWS[kernel](*x)]
    elif kernel == "copy":
        values = [x[0].transpose(axes_of(name)) if name.startswith("permute") else x[0]]
    elif kernel == "matmul" and name.startswith("linear"):
        values = [np.maximum(x[0] @ x[1].T + (x[2] if len(x) > 2 else 0), 0)]
    elif kernel == "matmul":
        a, b = (m.T if t else m for m, t in zip(x, transposes_of(name)))
        values = [a @ b]
    elif kernel == "fused_chain":
        values = [gelu(x[0] + x[1]) * x[2]]
    elif kernel == "cross_entropy" and name.startswith("training"):
        values = list(cross_entropy(*x))
    elif kernel == "mlp_step":
        values = [mlp_losses(benchmark.checked_call, *x)[-1]]
    elif kernel == "adam":
        parameters = [x[0][0].copy(), x[0][-1].copy()]
        state = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
        adam_step(state, parameters, [x[1][0], x[1][-1]], 1)
        values = parameters
    else:
        return None
    values = [np.asarray(v) for v in values]
    return [(v, np.max(np.abs(v)) if v.dtype.kind == "f" else np.float64(1)) for v in values]


# ---- rivals -----------------------------------------------------------------------------------------------------------
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

    def gemm(self, benchmark, inputs):
        transposed = transposes_of(benchmark.name)
        (m, k), (_, n) = (x.shape[::-1] if t else x.shape for x, t in zip(inputs, transposed))
        y = np.empty((m, n), np.float32)
        row_major, plain, flipped = 101, 111, 112
        big = ctypes.c_int64
        address = [ctypes.c_void_p(array.ctypes.data) for array in (*inputs, y)]
        arguments = (row_major, *(flipped if t else plain for t in transposed), big(m), big(n), big(k),
                     ctypes.c_float(1), address[0], big(inputs[0].shape[1]), address[1], big(inputs[1].shape[1]),
                     ctypes.c_float(0), address[2], big(n))
        call = self.c.scipy_cblas_sgemm64_

        def run(_kept=(inputs, y)):
            call(*arguments)
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
        if kernel == "argmax":
            return [one("ArgMax", names, ["y"], axis=axis_of(name), keepdims=0)] if axis_of(name) is not None else None
        if kernel in ("sum", "mean", "max"):
            operator = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}[kernel]
            axis = axis_of(name)
            if axis is None:
                return [one(operator, names, ["y"], keepdims=0)]
            value = helper.make_tensor("axes", 7, [1], [axis])
            return [one("Constant", [], ["axes"], value=value), one(operator, names + ["axes"], ["y"], keepdims=0)]
        if kernel == "copy" and name.startswith("permute"):
            return [one("Transpose", names, ["y"], perm=axes_of(name))]
        if kernel == "matmul" and name.startswith("linear"):
            return [one("Gemm", names, ["s"], transB=1), one("Relu", ["s"], ["y"])]
        if kernel == "matmul":
            a, b = transposes_of(name)
            return [one("Gemm", names, ["y"], transA=int(a), transB=int(b))]
        if kernel == "fused_chain":
            return [one("Add", ["x0", "x1"], ["s"]), one("Gelu", ["s"], ["g"]), one("Mul", ["g", "x2"], ["y"])]
        return None

    def call(self, benchmark, inputs, output):
        from onnx import TensorProto, helper
        nodes = self.nodes(benchmark, [x.shape for x in inputs])
        if nodes is None:
            return None
        kind = TensorProto.INT64 if output.dtype == np.int64 else TensorProto.FLOAT
        graph = helper.make_graph(
            nodes, "benchmark",
            [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, x.shape) for i, x in enumerate(inputs)],
            [helper.make_tensor_value_info("y", kind, output.shape)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = self.ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for i, x in enumerate(inputs):
            binding.bind_cpu_input(f"x{i}", x)
        target = self.ort.OrtValue.ortvalue_from_numpy(np.empty_like(output))
        binding.bind_ortvalue_output("y", target)
        return lambda: session.run_with_iobinding(binding)


class Jax:
    def __init__(self):
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        import jax
        self.jax, self.version = jax, jax.__version__

    def call(self, benchmark, inputs):
        jax, jnp = self.jax, self.jax.numpy
        x = [jax.device_put(array) for array in inputs]

        def mean_loss(logits, labels):
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1).mean()
        if benchmark.kernel == "fused_chain":
            chain = jax.jit(lambda a, b, c: jax.nn.gelu(a + b, approximate=False) * c)
            return lambda: chain(*x).block_until_ready()
        if benchmark.kernel == "cross_entropy" and benchmark.name.startswith("training"):
            both = jax.jit(jax.value_and_grad(mean_loss))
            return lambda: both(*x)[1].block_until_ready()
        if benchmark.kernel == "mlp_step":
            return self.mlp_step(mean_loss, x)
        return None

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
            loss.block_until_ready()
        return call


class CpuRivals:
    """Contenders among OpenBLAS, ONNX Runtime and JAX, by name."""
    name = "cpu"

    def __init__(self, against, threads):
        self.random = np.random.default_rng(1)
        self.threads = threads
        self.openblas = OpenBlas.all() if "openblas" in against else {}
        self.onnxruntime = OnnxRuntime(threads) if "onnxruntime" in against else None
        self.jax = Jax() if "jax" in against else None
        self.versions = {"NumPy": np.__version__}
        for label, rival in (*self.openblas.items(), ("ONNX Runtime", self.onnxruntime), ("JAX", self.jax)):
            if rival:
                self.versions[label] = rival.version

    def wrap(self, described):
        dtype = np.dtype(NUMPY_DTYPES[described["dtype"]])
        count = int(np.prod(described["shape"], dtype=np.int64))
        memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(described["address"])
        return np.frombuffer(memory, dtype).reshape(described["shape"])

    def inputs(self, run):
        filled = []
        for spec, described in zip(run.benchmark.inputs, run.tensors("inputs")):
            x = self.wrap(described)
            if x.dtype.kind == "f":
                x[...] = self.random.random(x.shape, x.dtype) * (spec["high"] - spec["low"]) + spec["low"]
            else:
                x[...] = self.random.integers(int(spec["low"]), int(spec["high"]) + 1, x.shape)
            filled.append(x.copy())  # rivals get their own: some benchmarks work in place
        return filled

    def outputs(self, run):
        return [self.wrap(described) for described in run.tensors("outputs")]

    def exact(self, benchmark, inputs):
        return exact_values(benchmark, [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs])

    def error(self, ours, exact):
        worst = 0.0
        for y, (value, magnitude) in zip(ours, exact):
            if y.shape != value.shape:
                return float("inf")
            if y.dtype.kind != "f":
                worst = max(worst, float((y != value).any()))
            else:
                difference = np.abs(y - value) / np.maximum(magnitude, 1e-30)
                worst = max(worst, float(np.nan_to_num(difference, nan=np.inf).max()))
        return worst

    def synchronize(self):
        pass

    @staticmethod
    def timer(call):
        def seconds(calls):
            start = time.perf_counter()
            for _ in range(calls):
                call()
            return time.perf_counter() - start
        return seconds

    def contenders(self, benchmark, inputs):
        calls = {}
        if benchmark.kernel == "matmul" and not benchmark.name.startswith("linear"):
            calls.update({name: library.gemm(benchmark, inputs) for name, library in self.openblas.items()})
        exact = None
        if self.onnxruntime and benchmark.kernel not in ("mlp_step", "adam", "cross_entropy"):
            exact = self.exact(benchmark, inputs)
        if exact:
            value = exact[0][0]
            output = np.empty(value.shape, np.float32 if value.dtype.kind == "f" else value.dtype)
            calls["ONNX Runtime"] = self.onnxruntime.call(benchmark, inputs, output)
        if self.jax:
            calls["JAX"] = self.jax.call(benchmark, inputs)
        return {name: self.timer(call) for name, call in calls.items() if call}

    def bandwidth(self):
        """Bytes per second of a copy of 64M floats by all threads, read and written."""
        source = self.random.random(1 << 26, np.float32)
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

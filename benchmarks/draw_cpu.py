"""The CPU's rivals beside random draws (draws.py), and judges of their numbers in double: NumPy, of networks' operators PyTorch."""
import functools

import numpy as np

import draw_networks
import onnx_networks
from cpu_rivals import DTYPE_NAMES, CpuRivals, OnnxRuntime, debian_torch
from exact import BINARY, REDUCTIONS, ROWS, UNARY, gelu, is_float, log_softmax
from onednn import OneDnn
from timing import Contender

TINY = 1e-3  # products below are subnormal in f16, whose errors aren't relative
ONNX = {"exp": "Exp", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "gelu": "Gelu", "log": "Log", "sqrt": "Sqrt",
        "neg": "Neg", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min",
        "softmax": "Softmax", "log_softmax": "LogSoftmax"}
ONNX_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}


def views_of(draw, buffers):
    """A set's inputs, read-only, on its buffers' memory."""
    return [np.lib.stride_tricks.as_strided(buffer[view.offset:], view.shape, [s * buffer.itemsize for s in view.strides],
                                            writeable=False) for buffer, view in zip(buffers, draw.views)]


def transposed(draw, x):
    """The factors of a product as they are multiplied."""
    flags = [draw.options.get("transpose_a", False), draw.options.get("transpose_b", False)]
    return [np.swapaxes(m, -1, -2) if flag else m for m, flag in zip(x, flags)]


def exact_draw(draw, x):
    """(value, magnitude) of inputs in double; draw_torch.magnitudes says of what kind."""
    kernel, options = draw.kernel, draw.options
    if kernel in UNARY or kernel in BINARY or kernel == "relu":
        value = np.maximum(x[0], 0) if kernel == "relu" else (UNARY.get(kernel) or BINARY[kernel])(*x)
        return value, max(np.abs(value).max(), 0.1 if len(x) == 1 else TINY)
    if kernel in REDUCTIONS:
        value = REDUCTIONS[kernel](x[0], axis=tuple(options["axes"]))
        return value, np.abs(value).max() if kernel == "max" else REDUCTIONS[kernel](np.abs(x[0]), axis=tuple(options["axes"]))
    if kernel == "log_softmax_grad":
        dy, y = x
        value = ROWS[kernel](dy, y)
        return value, np.maximum(np.abs(dy) + np.exp(y) * np.sqrt((dy * dy).sum(axis=-1, keepdims=True)), np.abs(value))
    if kernel in ROWS:
        value = ROWS[kernel](*x)
    elif kernel == "cross_entropy":
        value = -np.take_along_axis(log_softmax(x[0]), x[1][:, None], axis=1)[:, 0]
    elif kernel == "copy":
        value = x[0]
    else:
        a, b = transposed(draw, x)
        bias = x[2:] or [0.0]
        value = a @ b + bias[0]
        magnitude = np.maximum(np.sqrt((a * a) @ (b * b) + np.square(bias[0])), np.maximum(np.abs(value), TINY))
        activation = options.get("activation")
        return {"relu": lambda y: np.maximum(y, 0), "gelu": gelu, None: lambda y: y}[activation](value), magnitude
    return value, np.abs(value).max()


class Indices:
    """The judge of indices: right is any where the largest value stands."""

    def __init__(self, x, axes):
        kept = [i for i in range(x.ndim) if i not in axes]
        self.largest = x.max(axis=tuple(axes))
        self.x = np.transpose(x, kept + list(axes)).reshape(*self.largest.shape, -1)

    def error(self, indices):
        if indices.shape != self.largest.shape or indices.min() < 0 or indices.max() >= self.x.shape[-1]:
            return float("inf")
        found = np.take_along_axis(self.x, indices[..., None].astype(np.int64), axis=-1)[..., 0]
        return float((found != self.largest).any())


class DrawOnnx(OnnxRuntime):
    """Calls on dense inputs, which is what it takes."""

    def nodes(self, draw, shapes):
        from onnx import helper
        kernel, options, one = draw.kernel, draw.options, helper.make_node
        names = [f"x{i}" for i in range(len(draw.views))]
        if kernel in ("softmax", "log_softmax"):
            return [one(ONNX[kernel], names, ["y"], axis=-1)]
        if kernel in ONNX:
            return [one(ONNX[kernel], names, ["y"])]
        if kernel == "argmax":
            return [one("ArgMax", names, ["y"], axis=options["axes"][0], keepdims=0)] if len(options["axes"]) == 1 else None
        if kernel in ONNX_REDUCTIONS:
            axes = helper.make_tensor("axes", 7, [len(options["axes"])], options["axes"])
            return [one("Constant", [], ["axes"], value=axes), one(ONNX_REDUCTIONS[kernel], names + ["axes"], ["y"], keepdims=0)]
        if kernel == "matmul" and "activation" in options:
            return [one("Gemm", names, ["s"], transB=1), one(ONNX[options["activation"]], ["s"], ["y"])]
        if kernel == "matmul" and len(shapes[0]) == 2:
            return [one("Gemm", names, ["y"], transA=int(options["transpose_a"]), transB=int(options["transpose_b"]))]
        if kernel == "matmul":
            found = []
            for i, transpose in enumerate(("transpose_a", "transpose_b")):
                if options[transpose]:
                    found.append(one("Transpose", [names[i]], [f"t{i}"], perm=[0, 2, 1]))
                    names[i] = f"t{i}"
            return [*found, one("MatMul", names, ["y"])]
        if kernel == "copy":
            return [one("Transpose", names, ["y"], perm=[int(i) for i in np.argsort(stored_order(draw.views[0]))])]
        return None

    def calls_of(self, draw, sets, value):
        """Calls of the sets' views, or None."""
        if draw.family in draw_networks.FAMILIES:
            model = onnx_networks.model(draw)
            return model and self.calls_of_nodes(model.nodes, [list(model.arrays(x)) for x in sets], value.shape, np.float32,
                                                 model.constants, onnx_networks.OPSET)
        if draw.kernel == "copy":
            sets = [[x[0].transpose(stored_order(draw.views[0]))] for x in sets]
        if not all(x.flags.c_contiguous for x in sets[0]):
            return None
        return self.calls(draw, sets, value.shape, np.int64 if draw.kernel == "argmax" else np.float32)


def stored_order(view):
    """The axes as they lie in memory, outermost first."""
    return [int(i) for i in np.argsort([-stride for stride in view.strides], kind="stable")]


class DrawCpu(CpuRivals):
    def __init__(self, against, threads, options):
        def torch_rival(device, options):  # it is importable only while cpu_rivals looks for it
            from draw_torch import DrawTorch
            return DrawTorch(device, options)
        super().__init__(against, threads, options, torch_rival, DrawOnnx)
        self.onednn = OneDnn(threads) if "onednn" in against else None
        if self.onednn:
            self.versions["oneDNN"] = self.onednn.version
        self.make_judge = functools.partial(debian_torch, options, threads, torch_rival)

    @functools.cached_property
    def judge(self):
        return self.torch or self.make_judge()

    def as_tensor(self, x):
        """PyTorch's tensor on an array's memory."""
        return self.judge.wrap({"shape": x.shape, "dtype": DTYPE_NAMES[x.dtype.name], "address": x.ctypes.data})

    def exact(self, draw, buffers):
        if draw.family in draw_networks.FAMILIES:
            found = self.judge.exact(draw, [self.as_tensor(buffer) for buffer in buffers])
            return found if hasattr(found, "error") else [tuple(map(self.numbers, pair)) for pair in found]
        x = [v.astype(np.float64) if is_float(v) else v for v in views_of(draw, buffers)]
        if draw.kernel == "argmax":
            return Indices(x[0], draw.options["axes"])
        value, magnitude = exact_draw(draw, x)
        return [(np.asarray(value), np.asarray(magnitude))]

    def error(self, ours, exact):
        if not hasattr(exact, "error"):
            return super().error(ours, exact)
        found = self.numbers(ours[0] if isinstance(ours, (list, tuple)) else ours)
        return exact.error(found if isinstance(exact, Indices) else self.as_tensor(found))

    def contenders(self, draw, sets, short):
        found, missing, calls = {}, {}, {}
        views = [views_of(draw, buffers) for buffers in sets]
        if draw.kernel == "matmul" and "activation" not in draw.options and self.openblas:
            if views[0][0].ndim == 2:
                for name, library in self.openblas.items():
                    calls.update({name + what: of_sets for what, of_sets in library.calls(draw, views).items()})
            else:
                calls["OpenBLAS"] = [of_numpy(draw, x) for x in views]
        for name, made in (("ONNX Runtime", self.onnxruntime and functools.partial(
                self.onnxruntime.calls_of, draw, views, np.empty(draw.output_shape, np.float32))),
                           ("oneDNN", self.onednn and functools.partial(self.onednn.calls, draw, views))):
            if made:
                try:
                    calls[name] = made()
                except Exception as error:  # each has its own kinds
                    missing[name] = f"{type(error).__name__}: {str(error)[:160]}"
        for name, of_sets in calls.items():
            if of_sets:
                found[name] = Contender(of_sets)
            else:
                missing[name] = "it hasn't the operator, or not on such a layout"
        if self.torch:
            theirs, why = self.torch.contenders(draw, self.torch_sets(sets), short)
            found.update(theirs)
            missing.update(why)
        if not found and not missing:
            missing["rival"] = "measured alone (--against numpy)"
        return found, missing


def of_numpy(draw, x):
    """NumPy's product of batches, which calls OpenBLAS for each."""
    a, b = transposed(draw, x)
    y = np.empty(draw.output_shape, np.float32)
    return lambda: np.matmul(a, b, out=y)

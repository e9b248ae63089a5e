"""PyTorch beside random draws (draws.py), and as judge of their numbers."""
import functools
import time
import types

import torch
import torch.nn.functional as F

import draw_networks
from timing import Contender, chain_length
from torch_compile import OverBudget, within
from torch_networks import call_of, judged
from torch_networks import program as network_program
from torch_programs import BINARY, REDUCTIONS, UNARY
from torch_rival import TorchRival

TINY = 1e-3              # products below are subnormal in f16, whose errors aren't relative
STATIC_EVERY = 33        # one of so many draws is compiled for its own sizes, too
GRADIENTS = {"softmax_grad": "_softmax_backward_data", "log_softmax_grad": "_log_softmax_backward_data"}
ACTIVATIONS = {"relu": torch.relu, "gelu": F.gelu}
WITHOUT_COMPILER = {"permutes": "a copy of a view is one kernel as it is", "launches": "compared with eager and its graphs",
                    "products": "compiled it is the library's call as before",
                    "products_f32": "compiled it is the library's call as before",
                    "convolutions": "compiled it is the library's call as before",
                    "recurrent": "compiled it is the library's call as before"}


def program(draw):
    """What PyTorch's users write for it, as a function of arguments()."""
    kernel, options = draw.kernel, draw.options
    if draw.family in draw_networks.FAMILIES:
        return network_program(draw)
    if kernel in UNARY or kernel in BINARY:
        return UNARY.get(kernel) or BINARY[kernel]
    if kernel == "argmax":
        return functools.partial(torch.argmax, dim=argmax_axis(draw))
    if kernel in REDUCTIONS:
        return functools.partial(REDUCTIONS[kernel], dim=tuple(options["axes"]))
    if kernel in ("softmax", "log_softmax"):
        return functools.partial(getattr(torch, kernel), dim=-1)
    if kernel in GRADIENTS:
        backward = getattr(torch.ops.aten, GRADIENTS[kernel])
        return lambda dy, y: backward(dy, y, -1, y.dtype)
    if kernel == "cross_entropy":
        return functools.partial(F.cross_entropy, reduction="none")
    if kernel == "copy":
        return functools.partial(torch.clone, memory_format=torch.contiguous_format)
    if "activation" in options:
        after = ACTIVATIONS[options["activation"]]
        return lambda x, weight, bias: after(F.linear(x, weight, bias))
    return torch.matmul


def argmax_axis(draw):
    """None of all axes."""
    axes = draw.options["axes"]
    return axes[0] if len(axes) == 1 else None


def arguments(draw, buffers):
    """Views of a set's buffers, as program() takes them."""
    views = [buffer.as_strided(view.shape, view.strides, view.offset) for buffer, view in zip(buffers, draw.views)]
    if draw.kernel == "matmul" and "activation" not in draw.options:
        for i, transpose in enumerate(("transpose_a", "transpose_b")):
            if draw.options[transpose]:
                views[i] = views[i].transpose(-1, -2)
    return views


def magnitudes(draw, arguments_, value):
    """What errors are measured against: sums of magnitudes; where products' terms may cancel the value or, if that is more,
    the root of their squares; else the largest value."""
    if draw.kernel in ("sum", "mean"):
        return program(draw)(arguments_[0].abs())
    if draw.kernel == "matmul":
        a, b, *bias = (x.square() for x in arguments_)
        return torch.maximum((F.linear(a, b, *bias) if bias else torch.matmul(a, b)).sqrt(), value.abs()).clamp_min(TINY)
    if draw.kernel == "log_softmax_grad":
        dy, y = arguments_
        return torch.maximum(dy.abs() + y.exp() * dy.square().sum(-1, keepdim=True).sqrt(), value.abs())
    return value.abs().max().clamp_min(0.1 if draw.kernel in UNARY else TINY if draw.kernel in BINARY else 0.0)


class Indices:
    """The judge of indices: right is any where the largest value stands."""

    def __init__(self, x, axis):
        self.x, self.axis = (x.reshape(-1), 0) if axis is None else (x, axis)
        self.largest = self.x.amax(self.axis)

    def error(self, indices):
        if indices.shape != self.largest.shape:
            return float("inf")
        indices = indices.to(self.x.device)
        if not bool(((indices >= 0) & (indices < self.x.shape[self.axis])).all()):
            return float("inf")
        found = self.x.gather(self.axis, indices.unsqueeze(self.axis)).squeeze(self.axis)
        return float((found != self.largest).any())


class TorchChain:
    """Calls in turn, captured as one CUDA graph."""

    def __init__(self, graph, results, synchronize):
        self.graph, self.results, self.synchronize = graph, results, synchronize
        self.sets, self.calls_in_one = 1, len(results)

    def seconds(self, replays):
        start = time.perf_counter()
        for _ in range(replays):
            self.graph.replay()
        self.synchronize()
        return time.perf_counter() - start

    def result(self):
        self.graph.replay()
        self.synchronize()
        return self.results[-1]


class DrawTorch(TorchRival):
    def __init__(self, device, options):
        super().__init__(device, options)
        self.compiled = {}      # program's key: compiled for any sizes
        self.compile_left = {}  # family: seconds
        for name in ("cache_size_limit", "recompile_limit", "accumulated_cache_size_limit",
                     "accumulated_recompile_limit"):
            if self.compiler and hasattr(torch, "_dynamo") and hasattr(torch._dynamo.config, name):
                setattr(torch._dynamo.config, name, 4096)
        if self.compiler and hasattr(torch, "compile"):
            from torch._functorch import config
            if hasattr(config, "donated_buffer"):
                config.donated_buffer = False  # gradients are computed again and again from one tape

    # ---- numbers
    def exact(self, draw, buffers):
        wide = [x.double() if x.dtype.is_floating_point else x for x in arguments(draw, buffers)]
        if draw.kernel == "argmax":
            return Indices(wide[0], argmax_axis(draw))
        if draw.family in draw_networks.FAMILIES:
            return judged(draw, wide)
        value = program(draw)(*wide)
        return [(value, magnitudes(draw, wide, value))]

    def error(self, ours, exact):
        ours = ours if isinstance(ours, (list, tuple)) else [ours]
        return exact.error(ours[0]) if hasattr(exact, "error") else super().error(ours, exact)

    # ---- contenders
    def contenders(self, draw, sets, short):
        self.found, self.missing = {}, {}
        views = [arguments(draw, buffers) for buffers in sets]
        graphs = short and self.on_gpu
        self.add_program("torch eager", draw, program(draw), views, "torch graph" if graphs else None)
        if not self.compiler:
            self.missing["torch compiled"] = "--no-compile"
        elif not hasattr(torch, "compile"):
            self.missing["torch compiled"] = f"PyTorch {torch.__version__} has no torch.compile, which came with 2.0"
        elif draw.family in WITHOUT_COMPILER:
            self.missing["torch compiled"] = WITHOUT_COMPILER[draw.family]
        else:
            self.add_compiled_draw("torch compiled", draw, views, graphs, dynamic=True)
            if draw.index % STATIC_EVERY == 0:
                self.add_compiled_draw("torch compiled static", draw, views, graphs, dynamic=False)
        return self.found, self.missing

    def add_program(self, name, draw, function, views, graph_name):
        try:
            contender = Contender([call_of(draw, function, x) for x in views], self.synchronize)
            contender.result()
        except RuntimeError as error:
            self.missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
            return
        self.found[name] = contender
        try:
            if graph_name:
                self.found[graph_name] = self.chain(draw, function, views)
        except RuntimeError as error:
            self.missing[graph_name] = f"can't be captured: {str(error).splitlines()[0][:160]}"

    def chain(self, draw, function, views):
        """Made on the stream that is captured, which is where a tape's backward pass runs."""
        length = chain_length(len(views))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            calls = [call_of(draw, function, x) for x in views]
            for _ in range(3):
                calls[0]()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            results = [calls[i % len(calls)]() for i in range(length)]
        return TorchChain(graph, results, self.synchronize)

    def add_compiled_draw(self, name, draw, views, graphs, dynamic):
        key = (draw.kernel, repr(draw.options), bool(draw.wanted))
        left = self.compile_left.setdefault(draw.family, self.compiler.seconds)
        used_up = f"compiling has used up the family's {self.compiler.seconds:g} s"
        if dynamic and key in self.compiled:
            function = self.compiled[key]
        elif left > 0:
            function = torch.compile(of_its_own(program(draw)), dynamic=dynamic)
        else:
            self.missing[name] = used_up
            return
        start = time.perf_counter()
        try:
            if left > 0:
                with within(left):
                    call_of(draw, function, views[0])()
            else:  # another rank, element type or layout would be compiled again
                with torch.compiler.set_stance("fail_on_recompile"):
                    call_of(draw, function, views[0])()
        except OverBudget:
            torch._dynamo.reset()
            self.compiled.clear()
            self.compile_left[draw.family] = 0
            self.missing[name] = used_up
            return
        except Exception as error:  # it raises what it likes
            first = (str(error).strip() or "no message").splitlines()[0]
            self.missing[name] = used_up if left <= 0 else f"{type(error).__name__}: {first[:160]}"
            return
        self.compile_left[draw.family] -= time.perf_counter() - start if left > 0 else 0
        if dynamic:
            self.compiled[key] = function
        self.add_program(name, draw, function, views, name + " graph" if graphs else None)


def of_its_own(function):
    """`function` in code that no other has, which is where the compiler keeps what it made."""
    def call(*x):
        return function(*x)
    return types.FunctionType(call.__code__.replace(co_name="drawn"), call.__globals__, "drawn", None, call.__closure__)

"""PyTorch as rival and as judge of numbers: the same operations as the benchmarks of operators.cpp and programs.cpp."""
import ctypes
import re
import time

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64,
          "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8}
UNARY = {"neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
         "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "gelu": F.gelu, "silu": F.silu}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
          "minimum": torch.minimum, "equal": torch.eq}
REDUCTIONS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "argmax": torch.argmax}
ADAM = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}


# ---- what each benchmark computes -------------------------------------------------------------------------------------
def operation(benchmark):
    """A function of the inputs that returns the benchmark's outputs, or None where there is no counterpart."""
    kernel, name = benchmark.kernel, benchmark.name
    if kernel in UNARY:
        return lambda x: (UNARY[kernel](x),)
    if kernel in BINARY:
        return lambda a, b: (BINARY[kernel](a, b),)
    if kernel in REDUCTIONS:
        axis = {"rows": {"dim": 1}, "columns": {"dim": 0}, "all": {}}[name.split("_")[0]]
        return lambda x: (REDUCTIONS[kernel](x, **axis),)
    if kernel in ("softmax", "log_softmax"):
        return lambda x: (getattr(torch, kernel)(x, dim=-1),)
    if kernel in ("softmax_grad", "log_softmax_grad"):
        backward = torch.ops.aten._softmax_backward_data if kernel == "softmax_grad" \
            else torch.ops.aten._log_softmax_backward_data
        return lambda dy, y: (backward(dy, y, -1, y.dtype),)
    if kernel == "matmul":
        return matmul(name)
    if kernel == "matmul_cublaslt":
        return matmul_in_mode(name)
    if kernel == "copy":
        if not name.startswith("permute"):
            return lambda x: (x.clone(),)
        order = re.match(r"permute_([0-9]+)_", name)
        axes = [int(axis) for axis in order.group(1)] if order else [1, 0]
        return lambda x: (x.permute(axes).contiguous(),)
    if kernel == "cast":
        return lambda x: (x.to(torch.float16),)
    if kernel == "graph":
        return lambda x: (chain_of(int(name.split("_")[-1]), x),)
    if kernel == "fused_chain":
        return lambda a, b, c: (F.gelu(a + b) * c,)
    if kernel == "cross_entropy":
        return cross_entropy_training if name.startswith("training") else None
    return None


def chain_of(length, x):
    for _ in range(length):
        x = x + 1
    return x


def matmul(name):
    linear = re.match(r"linear(_[a-z]+)?_[0-9]", name)
    if linear:
        after = {None: torch.relu, "_relu": torch.relu, "_gelu": F.gelu, "_none": lambda y: y}[linear.group(1)]
        return lambda x, weight, *bias: (after(F.linear(x, weight, *bias)),)
    transposes = re.match(r"([nt])([nt])_", name)
    a_is, b_is = transposes.groups() if transposes else "nn"
    return lambda a, b: (torch.matmul(a.t() if a_is == "t" else a, b.t() if b_is == "t" else b),)


def matmul_in_mode(name):
    """strict_… or tf32_…, then as for matmul."""
    mode, product = name.split("_", 1)
    call = matmul(product)

    def with_mode(*x):
        torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
        try:
            return call(*x)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
    return with_mode


def cross_entropy_training(logits, labels):
    logits = logits.detach().requires_grad_(True)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    return loss.detach(), logits.grad


class AdamStep:
    """torch.optim.Adam over the rows of the inputs (values, gradients)."""

    def __init__(self, values, gradients, **options):
        self.parameters = [row.clone().requires_grad_(True) for row in values]
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient.clone()
        self.optimizer = torch.optim.Adam(self.parameters, **ADAM, **options)

    def __call__(self, *_):
        self.optimizer.step()
        return self.parameters[0].detach(), self.parameters[-1].detach()


class MlpStep:
    """A training step of the inputs' network: pixels, labels, then weight and bias of each layer."""

    def __init__(self, pixels, labels, *layers, **options):
        modules = []
        for weight, bias in zip(layers[::2], layers[1::2]):
            linear = torch.nn.Linear(weight.shape[1], weight.shape[0], device=weight.device, dtype=weight.dtype)
            with torch.no_grad():
                linear.weight.copy_(weight)
                linear.bias.copy_(bias)
            modules += [linear, torch.nn.ReLU()]
        self.model = torch.nn.Sequential(*modules[:-1])
        self.optimizer = torch.optim.Adam(self.model.parameters(), **ADAM, **options)

    def __call__(self, pixels, labels, *_):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(pixels), labels)
        loss.backward()
        self.optimizer.step()
        return (loss.detach(),)


STATEFUL = {"adam": AdamStep, "mlp_step": MlpStep}
# Where torch.compile may win: several operators in one.
COMPILED = re.compile(r"fused_chain/|matmul/linear|cross_entropy/training|mlp_step/|softmax/[0-9]*x(1024|4096)$")


class CudaMemory:
    """What torch.as_tensor needs to see device memory of ours."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,), "typestr": "|u1", "version": 3}


class TorchRival:
    """Contenders: PyTorch eager, torch.compile, and either in a CUDA graph."""
    name = "torch"

    def __init__(self, device, compile_too=True):
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.target = device.split(":")[0]
        self.device = torch.device("cpu" if self.target == "cpu" else "cuda")  # OpenCL is compared on the same card
        self.compile_too = compile_too
        self.generator = torch.Generator(device=self.device).manual_seed(1)
        self.versions = {"PyTorch": torch.__version__}
        if self.device.type == "cuda":
            self.versions["CUDA of PyTorch"] = torch.version.cuda

    # ---- inputs and numbers
    def wrap(self, description):
        """A tensor over the memory of one of our tensors; none on OpenCL, whose memory has no address."""
        count = torch.Size(description["shape"]).numel()
        dtype = DTYPES[description["dtype"]]
        size = count * dtype.itemsize
        if self.device.type == "cuda":
            flat = torch.as_tensor(CudaMemory(description["address"], size), device=self.device)
        else:
            flat = torch.frombuffer((ctypes.c_uint8 * size).from_address(description["address"]), dtype=torch.uint8)
        return flat.view(dtype).view(description["shape"])

    def inputs(self, run):
        """Fills the run's inputs with random numbers; returns tensors with the same."""
        filled = []
        for i, (spec, described) in enumerate(zip(run.benchmark.inputs, run.tensors("inputs"))):
            direct = "address" in described
            x = self.wrap(described) if direct else torch.empty(described["shape"], dtype=DTYPES[described["dtype"]],
                                                                device=self.device)
            if x.dtype.is_floating_point:
                x.uniform_(spec["low"], spec["high"], generator=self.generator)
            else:
                x.random_(int(spec["low"]), int(spec["high"]) + 1, generator=self.generator)
            self.synchronize()
            if not direct:
                host = x.cpu().contiguous()  # must live until it is copied
                run.write(i, host.data_ptr())
            filled.append(x)
        return filled

    def outputs(self, run):
        found = []
        for i, described in enumerate(run.tensors("outputs")):
            if "address" in described:
                found.append(self.wrap(described))
            else:
                host = torch.empty(described["shape"], dtype=DTYPES[described["dtype"]])
                run.read(i, host.data_ptr())
                found.append(host.to(self.device))
        return found

    def exact(self, benchmark, inputs):
        """[(value, magnitude)] in double; errors are measured against the magnitude."""
        wide = [x.double() if x.dtype.is_floating_point else x for x in inputs]
        if benchmark.kernel in STATEFUL:
            step = STATEFUL[benchmark.kernel](*wide)
            for _ in range(benchmark.checked_call):
                result = step(*wide)
        else:
            call = operation(benchmark)
            if call is None:
                return None
            result = call(*wide)
        if benchmark.kernel in ("sum", "mean"):
            magnitudes = operation(benchmark)(*[x.abs() for x in wide])
        else:
            magnitudes = [y.abs().max() if y.is_floating_point() else torch.ones(()) for y in result]
        return list(zip(result, magnitudes))

    def error(self, ours, exact):
        """The largest error of an output, relative to its magnitude; indices must be equal."""
        worst = 0.0
        for y, (value, magnitude) in zip(ours, exact):
            if tuple(y.shape) != tuple(value.shape):
                return float("inf")
            if not y.is_floating_point():
                worst = max(worst, float((y != value).any()))
                continue
            step = max(1, (1 << 26) // max(1, y[0].numel() if y.dim() else 1))  # in parts: doubles are large
            for start in range(0, y.shape[0] if y.dim() else 1, step):
                part = slice(start, start + step)
                a, b = (y[part], value[part]) if y.dim() else (y, value)
                m = magnitude[part] if magnitude.dim() else magnitude
                difference = (a.double() - b).abs() / m.clamp_min(1e-30)
                worst = max(worst, float(difference.nan_to_num(float("inf")).max()))
        return worst

    # ---- time
    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def timer(self, call):
        def seconds(calls):
            start = time.perf_counter()
            for _ in range(calls):
                call()
            self.synchronize()
            return time.perf_counter() - start
        return seconds

    def graph_of(self, call):
        """The call as a CUDA graph's replay."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay

    def contenders(self, benchmark, inputs):
        """{name: seconds(calls)}"""
        on_gpu = self.device.type == "cuda"
        if benchmark.kernel == "mlp_step":
            eager = MlpStep(*inputs)
            found = {"torch eager": self.timer(lambda: eager(*inputs))}
            if on_gpu:
                captured = MlpStep(*inputs, capturable=True, fused=True)
                found["torch graph"] = self.timer(self.graph_of(lambda: captured(*inputs)))
            return found
        if benchmark.kernel == "adam":
            plain, fused = AdamStep(*inputs), AdamStep(*inputs, fused=True)
            return {"torch eager": self.timer(plain), "torch fused": self.timer(fused)}
        call = operation(benchmark)
        if call is None:
            return {}
        with_gradient = benchmark.name.startswith("training")
        scope = torch.enable_grad if with_gradient else torch.no_grad

        def eager_call():
            with scope():
                return call(*inputs)
        found = {"torch eager": self.timer(eager_call)}
        eager_call()
        self.synchronize()
        if self.compile_too and COMPILED.match(f"{benchmark.kernel}/{benchmark.name}"):
            torch._dynamo.reset()
            if with_gradient:
                compiled_loss = torch.compile(F.cross_entropy, dynamic=False)

                def compiled_call():
                    logits = inputs[0].detach().requires_grad_(True)
                    compiled_loss(logits, inputs[1]).backward()
            else:
                compiled = torch.compile(call, dynamic=False)

                def compiled_call():
                    with torch.no_grad():
                        return compiled(*inputs)
            try:
                compiled_call()
                found["torch compiled"] = self.timer(compiled_call)
            except Exception as error:  # it needs a C compiler, and raises what it likes
                print(f"{benchmark.key}: no torch.compile: {type(error).__name__}: {str(error)[:200]}")
        if on_gpu and not with_gradient and self.timer(eager_call)(20) / 20 < 100e-6:
            found["torch graph"] = self.timer(self.graph_of(eager_call))
        return found

    def bandwidth(self):
        """Bytes per second of a copy of 64M floats, read and written."""
        elements = 1 << 26
        source = torch.rand(elements, device=self.device, generator=self.generator)
        target = torch.empty_like(source)
        seconds = self.timer(lambda: target.copy_(source))
        seconds(3)
        return 8 * elements / (sorted(seconds(10) for _ in range(5))[2] / 10)

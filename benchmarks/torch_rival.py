"""PyTorch as rival and as judge of numbers."""
import ctypes
import functools
import gc

import torch

from figures import BYTES
from timing import Contender
from torch_compile import AUTOTUNED, ELSEWHERE, Compiler
from torch_programs import STATEFUL, operation, same

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64,
          "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8}


class CudaMemory:
    """What torch.as_tensor needs to see device memory of ours."""

    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,), "typestr": "|u1", "version": 3}


class TorchRival:
    """Contenders: PyTorch eager and compiled, each called and, for short calls on a GPU, replayed in a CUDA graph."""

    def __init__(self, device, options):
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.set_grad_enabled(False)  # those who want gradients say so
        self.device = torch.device("cpu" if device == "cpu" else "cuda")  # OpenCL is compared on the same card
        self.on_gpu = self.device.type == "cuda"
        self.compiler = Compiler(options.compile_seconds, options.autotune_seconds) if options.compile else None
        self.generator = torch.Generator(device=self.device).manual_seed(1)
        self.versions = {"PyTorch": torch.__version__}
        if self.on_gpu:
            self.versions["CUDA of PyTorch"] = torch.version.cuda

    def cache_bytes(self):
        """Of the GPU's last cache; None where this isn't known."""
        return torch.cuda.get_device_properties(self.device).L2_cache_size if self.on_gpu else None

    # ---- inputs and numbers
    def wrap(self, description):
        """A tensor over the memory of one of our tensors; none on OpenCL, whose memory has no address."""
        count = torch.Size(description["shape"]).numel()
        dtype = DTYPES[description["dtype"]]
        size = count * BYTES[description["dtype"]]
        if self.device.type == "cuda":
            flat = torch.as_tensor(CudaMemory(description["address"], size), device=self.device)
        else:
            flat = torch.frombuffer((ctypes.c_uint8 * size).from_address(description["address"]), dtype=torch.uint8)
        return flat.view(dtype).view(description["shape"])

    def inputs(self, run):
        """Fills the run's sets of inputs with the same random numbers; returns for each set tensors of the same."""
        first = []
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
            first.append(x)
        run.replicate()
        sets = [first]
        for other in range(1, run.sets):
            described = run.tensors("inputs", other)
            sets.append([self.wrap(d) if "address" in d else x.clone() for d, x in zip(described, first)])
        return sets

    def give(self, inputs, run):
        """Writes a set of inputs into a run on another device."""
        for i, x in enumerate(inputs):
            host = x.cpu().contiguous()
            run.write(i, host.data_ptr())
        run.replicate()

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
        """The largest error of an output, relative to its magnitude; of indices, how many are others."""
        worst = 0.0
        for y, (value, magnitude) in zip(ours, exact):
            if tuple(y.shape) != tuple(value.shape):
                return float("inf")
            if not y.is_floating_point():
                worst = max(worst, float((y != value).double().mean()))
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
        if self.on_gpu:
            torch.cuda.synchronize()

    def clean(self):
        """Between benchmarks."""
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()

    def compute_something(self):
        """Raises RuntimeError where PyTorch or the device no longer computes."""
        torch.ones(1, device=self.device).add(1).item()

    def graphs(self, calls):
        """Each call as a CUDA graph's replay, which returns what the captured call did."""
        found = []
        side = torch.cuda.Stream()
        for call in calls:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    call()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = call()

            def replay(graph=graph, result=result):
                graph.replay()
                return result
            found.append(replay)
        return found

    def contenders(self, benchmark, sets, short):
        """({name: Contender}, {name: why there is none}). `short`: calls are short enough for launches to matter."""
        self.found, self.missing = {}, {}
        if benchmark.kernel in STATEFUL:
            self.add_steps(benchmark.kernel, sets[0])
        else:
            self.add_calls(benchmark, sets, short and self.on_gpu)
        return self.found, self.missing

    def add(self, name, calls, graph_name=None):
        """The calls and, where it has a name, their graphs."""
        self.found[name] = Contender(calls, self.synchronize)
        if graph_name:
            try:
                self.found[graph_name] = Contender(self.graphs(calls), self.synchronize)
            except RuntimeError as error:
                self.missing[graph_name] = f"can't be captured: {str(error).splitlines()[0][:120]}"

    def add_compiled(self, name, make, calls_of, autotune=False, graph_name=None):
        """`make` as for Compiler.compile; `calls_of(program)` are the calls that are timed."""
        if not self.compiler:
            self.missing[name] = "--no-compile"
            return
        program, why = self.compiler.compile(make, autotune)
        if program is None:
            self.missing[name] = why
        else:
            self.add(name, calls_of(program), graph_name)

    def add_calls(self, benchmark, sets, graphs):
        eager = operation(benchmark)
        if eager is None:
            self.missing["torch"] = "PyTorch has no such operation"
            return
        self.add("torch eager", [functools.partial(eager, *x) for x in sets], "torch graph" if graphs else None)
        if benchmark.kernel == "graph":
            self.missing["torch compiled"] = "would make one kernel of a hundred operators; the row asks for one's price"
            return

        def compiled(name, **options):
            self.add_compiled(name, lambda change: functools.partial(operation(benchmark, change), *sets[0]),
                              lambda program: [functools.partial(program.func, *x) for x in sets],
                              graph_name=name + " graph" if graphs else None, **options)
        compiled("torch compiled")
        if self.on_gpu and benchmark.kernel in ("matmul", "matmul_cublaslt"):
            if AUTOTUNED.match(f"{benchmark.kernel}/{benchmark.name}"):
                compiled("torch autotuned", autotune=True)
            else:
                self.missing["torch autotuned"] = ELSEWHERE

    def add_steps(self, kernel, inputs):
        """Training steps: the loss and its gradient compiled; Adam fused (PyTorch's one kernel for many tensors)."""
        def step(change=same, **options):
            return functools.partial(STATEFUL[kernel](*inputs, change=change, **options), *inputs)
        fused = {"fused": True, "capturable": True} if self.on_gpu else {}
        self.add("torch eager", [step()])
        if self.on_gpu:
            self.add("torch fused", [step(**fused)], "torch graph")
        options = fused if kernel != "adam" or not self.on_gpu else {"capturable": True}
        self.add_compiled("torch compiled", lambda change: step(change, **options), lambda program: [program],
                          graph_name="torch compiled graph" if self.on_gpu else None)

    def bandwidth(self):
        """Bytes per second of a copy of 64M floats, read and written."""
        elements = 1 << 26
        source = torch.rand(elements, device=self.device, generator=self.generator)
        target = torch.empty_like(source)
        copy = Contender([lambda: target.copy_(source)], self.synchronize)
        copy.seconds(3)
        return 8 * elements / (sorted(copy.seconds(10) for _ in range(5))[2] / 10)

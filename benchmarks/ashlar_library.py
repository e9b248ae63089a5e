"""libashlar_bench.so (library.h) for Python: lists benchmarks, makes their tensors, calls and times them."""
import ctypes
import json
from dataclasses import dataclass, field


@dataclass
class Benchmark:
    """One function on inputs of given shapes, in one dtype."""
    index: int
    kernel: str
    name: str
    dtype: str
    inputs: list            # of {"shape", "low", "high"} and, where it isn't the benchmark's, "dtype"
    flops: float
    bytes: float            # 0: inputs and outputs, each once
    checked_call: int
    operations: int
    stateful: bool          # calls differ: one set of inputs, no graph around it
    key: str = field(init=False)

    def __post_init__(self):
        self.key = f"{self.kernel}/{self.name}/{self.dtype}"

    def dtype_of(self, i):
        return self.inputs[i].get("dtype", self.dtype)


class AshlarError(RuntimeError):
    pass


class Library:
    def __init__(self, path, device):
        self.c = ctypes.CDLL(path)
        for name, result in (("error", ctypes.c_char_p), ("device", ctypes.c_char_p), ("list", ctypes.c_char_p),
                             ("make", ctypes.c_void_p), ("tensors", ctypes.c_char_p), ("call", ctypes.c_int),
                             ("make_call", ctypes.c_void_p), ("share", ctypes.c_void_p), ("capture", ctypes.c_int),
                             ("capture_chain", ctypes.c_int), ("replay_chain", ctypes.c_int), ("replay", ctypes.c_int), ("write", ctypes.c_int),
                             ("read", ctypes.c_int), ("replicate", ctypes.c_int), ("synchronize", ctypes.c_int),
                             ("memory", ctypes.c_char_p), ("trim", ctypes.c_int),
                             ("time", ctypes.c_double), ("free", None)):
            getattr(self.c, "ashlar_bench_" + name).restype = result
        self.device = device
        self.description = json.loads(self.checked(self.c.ashlar_bench_device(device.encode())))

    def checked(self, result):
        if result is None or result == -1:
            raise AshlarError(self.c.ashlar_bench_error().decode())
        return result

    def memory(self):
        """{"live", "peak_live", "held"}: bytes of the device in use, the most at once since trim(), taken from the driver."""
        return json.loads(self.checked(self.c.ashlar_bench_memory(self.device.encode())))

    def trim(self):
        self.checked(self.c.ashlar_bench_trim(self.device.encode()))

    def benchmarks(self):
        listed = json.loads(self.checked(self.c.ashlar_bench_list()))
        return [Benchmark(i, b["kernel"], b["name"], dtype, b["inputs"], b["flops"], b["bytes"], b["checked_call"],
                          b["operations"], b["stateful"])
                for i, b in enumerate(listed) for dtype in b["dtypes"]]


CALLS, SUBMITTING, REPLAYS, CHAINS = range(4)  # AshlarBenchTiming


class Run:
    """A benchmark, or a call that describes itself (draws.py), with sets of its inputs on the device. Calls that are timed
    take the sets in turn."""

    def __init__(self, library, benchmark, sets=1, handle=None):
        self.library, self.benchmark, self.sets = library, benchmark, sets
        self.c, device = library.c, library.device.encode()
        if handle is None and hasattr(benchmark, "call"):
            handle = self.c.ashlar_bench_make_call(json.dumps(benchmark.call()).encode(), device, sets)
        elif handle is None:
            handle = self.c.ashlar_bench_make(benchmark.index, benchmark.dtype.encode(), device, sets)
        self.handle = ctypes.c_void_p(library.checked(handle))

    def share(self, vendor):
        """A run on the same inputs whose calls follow a policy on vendors' libraries."""
        return Run(self.library, self.benchmark, self.sets,
                   self.library.checked(self.c.ashlar_bench_share(self.handle, vendor.encode())))

    def call(self, set_=0):
        return self.library.checked(self.c.ashlar_bench_call(self.handle, set_))

    def capture(self):
        """A graph for each set; replay() and seconds(…, REPLAYS) run them."""
        self.library.checked(self.c.ashlar_bench_capture(self.handle))

    def replay(self, set_=0):
        return self.library.checked(self.c.ashlar_bench_replay(self.handle, set_))

    def capture_chain(self, calls):
        """One graph of so many calls, which take the sets in turn; replay_chain() and seconds(…, CHAINS) run it."""
        self.library.checked(self.c.ashlar_bench_capture_chain(self.handle, calls))

    def replay_chain(self):
        return self.library.checked(self.c.ashlar_bench_replay_chain(self.handle))

    def tensors(self, which, set_=0):
        """[{"shape", "dtype", "address" unless on OpenCL}] of a set's "inputs" or the last call's "outputs"."""
        return json.loads(self.library.checked(self.c.ashlar_bench_tensors(self.handle, set_)))[which]

    def write(self, i, address):
        """An input of the first set; replicate() brings it to the others."""
        self.library.checked(self.c.ashlar_bench_write(self.handle, i, ctypes.c_void_p(address)))

    def replicate(self):
        self.library.checked(self.c.ashlar_bench_replicate(self.handle))

    def read(self, i, address):
        self.library.checked(self.c.ashlar_bench_read(self.handle, i, ctypes.c_void_p(address)))

    def seconds(self, calls, what=CALLS):
        return self.library.checked(self.c.ashlar_bench_time(self.handle, ctypes.c_int64(calls), what))

    def close(self):
        self.c.ashlar_bench_free(self.handle)

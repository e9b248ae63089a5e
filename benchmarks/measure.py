#!/usr/bin/env python3
"""Times the benchmarks and rivals in turn, in one process, and writes the measurements as JSON (results.py).

    measure.py --library build/lib/libashlar_bench.so --device cuda,opencl --against torch --results FOLDER

The first device is the one whose memory the rivals share; benchmarks of the others run beside it, in the same rounds on
the same numbers, and get a file of their own. For each benchmark: random inputs, in as many copies as are needed for a
call to find none of its own in a cache; calls of every contender, whose numbers are compared with the same in double;
then rounds in which every contender runs one batch of calls that ends in a synchronisation. Reported are medians over
the rounds and the 10th and 90th percentiles. A contender with wrong numbers isn't timed; where they are ours, the exit
code is 1. It is 3 when --limit left benchmarks over: the same command with --resume goes on.
"""
import argparse
import fnmatch
import math
import os
import platform
import subprocess
import sys
import time

import figures
import results
from ashlar_library import CALLS, REPLAYS, SUBMITTING, AshlarError, Library, Run
from timing import OurContender, in_turn, median_and_spread

# The largest error of an output over its magnitude (for sums the sum of magnitudes, else the largest value).
LIMITS = {"f64": 1e-12, "f32": 3e-5, "f16": 2e-3, "bf16": 1.6e-2}
TF32_LIMIT = 2e-3
WINOGRAD_LIMIT = 1e-4               # of a convolution that cuDNN may compute by such transforms
RIVALS_LIMIT = 4                   # times ours: eager ones round to 16 bits between operators
RIVALS_INDICES = 1e-3              # so many of them may point at another element of the same value
SHORT = 100e-6                     # seconds below which launches matter, and graphs are contenders
ROTATED_BYTES = 1 << 20            # below these a launch is the limit
ROTATED_INTENSITY = 64             # flops per byte from which on arithmetic is the limit
UNKNOWN_CACHE = 256 << 20


class WrongNumbers(Exception):
    pass


def limit_of(benchmark, automatic_on=""):
    """Of numbers computed by our own kernels; by whatever the library takes on the device `automatic_on`, if one is named."""
    is_convolution = benchmark.kernel.startswith("conv2d") and not benchmark.name.startswith("depthwise")
    if automatic_on.split(":")[0] == "cuda" and is_convolution and benchmark.dtype == "f32":
        return WINOGRAD_LIMIT
    return TF32_LIMIT if benchmark.name.startswith("tf32") else LIMITS[benchmark.dtype]


def is_short(run):
    """By three tries: one that waited for its host said that a call of 4 µs was long."""
    run.seconds(1)
    return any(run.seconds(1) < 10 * SHORT and run.seconds(20) / 20 < SHORT for _ in range(3))


class Measurer:
    def __init__(self, options, libraries, rival, wanted):
        """`libraries` by device, `wanted`: the keys of each device's benchmarks."""
        self.options, self.libraries, self.rival, self.wanted = options, libraries, rival, wanted
        self.on_cpu = any(device == "cpu" for device in libraries)
        self.cache = rival.cache_bytes() or UNKNOWN_CACHE

    def sets(self, benchmark):
        """How many copies of the inputs hold twice the cache, where memory is the limit."""
        size = sum(math.prod(spec["shape"]) * figures.BYTES[benchmark.dtype_of(i)]
                   for i, spec in enumerate(benchmark.inputs))
        memory_is_the_limit = benchmark.flops < ROTATED_INTENSITY * size
        if benchmark.stateful or size < ROTATED_BYTES or not memory_is_the_limit:
            return 1
        return max(1, math.ceil(2 * self.cache / size))

    def measure(self, benchmark):
        """{device: row} of those that want it; "wrong" in a row says why there are no times."""
        first, *others = self.libraries
        devices = [first] + [device for device in others if benchmark.key in self.wanted[device]]
        runs = {}
        try:
            for device in devices:
                runs[device] = Run(self.libraries[device], benchmark, self.sets(benchmark))
            sets = self.rival.inputs(runs[first])
            for device in devices[1:]:
                self.rival.give(sets[0], runs[device])
            exact = self.rival.exact(benchmark, sets[0])
            if exact is None:
                raise WrongNumbers("nothing to check the numbers against")
            row, errors = self.checked(benchmark, runs, sets[0], exact)
            if any("wrong" in found for found in errors.values()):
                return self.rows(benchmark, {device: {**row, **found} for device, found in errors.items()})
            contenders, failed = self.our_contenders(benchmark, runs, exact)
            theirs, missing = self.rival.contenders(benchmark, sets, any(is_short(run) for run in runs.values()))
            missing.update(failed)
            self.drop_wrong(benchmark, theirs, missing, exact)
            exact = None
            times = in_turn({**contenders, **theirs}, self.options.batch, self.options.rounds, self.options.seconds,
                            self.options.pause)
            found = {device: {**row, **errors[device]} for device in devices}
            self.add_times(benchmark, found, times, theirs, missing)
            for device, run in runs.items():
                if figures.wants_host_time(benchmark):
                    found[device]["host_us"], found[device]["host_us_spread"] = self.host_microseconds(run)
            return self.rows(benchmark, found)
        finally:
            contenders = theirs = sets = exact = None
            for run in runs.values():
                run.close()
            self.rival.clean()

    def rows(self, benchmark, found):
        return {device: row for device, row in found.items() if benchmark.key in self.wanted[device]}

    def checked(self, benchmark, runs, inputs, exact):
        """What all rows of the benchmark say, and {device: {"error", and "wrong" where it is too large}}."""
        errors, size = {}, sum(x.nbytes for x in inputs)
        for device, run in runs.items():
            for _ in range(benchmark.checked_call):
                run.call()
            outputs = self.rival.outputs(run)
            if device == next(iter(runs)):
                size += sum(y.nbytes for y in outputs)
            error = self.rival.error(outputs, exact)
            if run.sets > 1:
                run.call(run.sets - 1)
                error = max(error, self.rival.error(self.rival.outputs(run), exact))
            errors[device] = {"error": error}
            limit = limit_of(benchmark, device)
            if not error <= limit:
                errors[device]["wrong"] = f"error {error:.2e} above {limit:.0e}"
        return {"kernel": benchmark.kernel, "name": benchmark.name, "dtype": benchmark.dtype,
                "shapes": [list(x.shape) for x in inputs], "flops": benchmark.flops / benchmark.operations,
                "bytes": (benchmark.bytes or size) / benchmark.operations,
                "sets": next(iter(runs.values())).sets}, errors

    def our_contenders(self, benchmark, runs, exact):
        """{"device" or "device graph": OurContender}, and why a graph is missing."""
        found, missing = {}, {}
        for device, run in runs.items():
            found[device] = OurContender(run, CALLS)
            if device == "cpu" or benchmark.stateful or not is_short(run):
                continue
            try:
                run.capture()
                run.replay(run.sets - 1)
            except AshlarError as error:
                missing[f"{device} graph of ours"] = str(error)[:200]
                continue
            error = self.rival.error(self.rival.outputs(run), exact)
            if not error <= limit_of(benchmark, device):
                raise WrongNumbers(f"replayed on {device}: error {error:.2e}")
            found[device + " graph"] = OurContender(run, REPLAYS)
        return found, missing

    def drop_wrong(self, benchmark, theirs, missing, exact):
        """Rivals too have to be right. Those with state aren't asked: each has made steps of its own by now."""
        if benchmark.stateful:
            return
        limit = RIVALS_INDICES if benchmark.kernel in ("argmax", "argmin") else RIVALS_LIMIT * limit_of(benchmark)
        for name, contender in list(theirs.items()):
            try:
                error = self.rival.error(contender.result(), exact)
                why = "" if error <= limit else f"its numbers are wrong: error {error:.1e}"
            except (RuntimeError, MemoryError) as problem:
                why = f"{type(problem).__name__}: {str(problem)[:200]}"
            if why:
                missing[name] = why
                del theirs[name]

    def add_times(self, benchmark, found, times, theirs, missing):
        """Every row gets our times on its device, the rivals', and beside them our times on the other devices."""
        milliseconds = {}
        for name, seconds in times.items():
            median, (low, high) = median_and_spread([1e3 * s / benchmark.operations for s in seconds])
            milliseconds[name] = median, [low, high]

        def ours(device):
            names = {"ashlar" + way: device + way for way in ("", " graph", " own", " own graph")}
            return {ours: milliseconds[name] for ours, name in names.items() if name in milliseconds}
        for device, row in found.items():
            both = {**ours(device), **{name: milliseconds[name] for name in theirs}}
            row["ms"] = {name: median for name, (median, _) in both.items()}
            row["spread"] = {name: spread for name, (_, spread) in both.items()}
            if missing:
                row["not"] = missing
            for other in found:
                if other != device:
                    beside = ours(other)
                    row.setdefault("beside", {})[other] = {"ms": {name: value[0] for name, value in beside.items()},
                                                           "spread": {name: value[1] for name, value in beside.items()}}

    def host_microseconds(self, run):
        """What the host spends on one operation, and its spread: time until the calls have returned."""
        calls = 200
        run.seconds(calls)
        times = [run.seconds(calls, SUBMITTING) / calls / run.benchmark.operations * 1e6 for _ in range(15)]
        return median_and_spread(times)


def revision():
    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.exists(os.path.join(here, "revision")):
        with open(os.path.join(here, "revision"), encoding="utf-8") as file:
            return file.read().strip()
    result = subprocess.run(["git", "-C", here, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return result.stdout.strip() or "unknown"


def make_rival(options, threads):
    if "torch" in options.against.split(","):
        from torch_rival import TorchRival
        return TorchRival(options.devices[0], options)
    from cpu_rivals import CpuRivals
    return CpuRivals(options.against.split(","), threads, options)


def matching(benchmarks, patterns):
    return [b.key for b in benchmarks if any(fnmatch.fnmatchcase(b.key, p) for p in patterns)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or opencl; several by commas, as cuda,opencl")
    parser.add_argument("--against", help="torch (CUDA), or a list of openblas, onnxruntime, jax and pytorch (CPU), or "
                        "numpy: nobody, only the numbers are checked")
    parser.add_argument("--results", required=True, help="folder of <device>.json")
    parser.add_argument("--resume", action="store_true", help="keep what the folder's files have measured")
    parser.add_argument("--only", action="append", help="kernel/name/dtype with * and ?; repeat for several")
    parser.add_argument("--quick", action="store_true", help="few benchmarks, short rounds")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="without torch.compile")
    parser.add_argument("--compile-seconds", type=float, default=60, help="budget of torch.compile for a benchmark")
    parser.add_argument("--autotune-seconds", type=float, default=150, help="budget of its autotuning in all")
    parser.add_argument("--rounds", type=int, help="at least this many")
    parser.add_argument("--seconds", type=float, help="for each contender")
    parser.add_argument("--limit", type=float, default=1e9, help="begin no benchmark after this many seconds")
    options = parser.parse_args()
    options.devices = options.device.split(",")
    on_cpu = options.devices[0] == "cpu"
    if options.against is None:
        options.against = {"cpu": "openblas,onnxruntime,jax,pytorch", "cuda": "torch"}.get(
            options.devices[0].split(":")[0], "numpy")
    options.rounds = options.rounds or (5 if options.quick else 9)
    options.seconds = options.seconds or (0.1 if options.quick else 0.5 if on_cpu else 0.1)
    options.batch = 0.05 if on_cpu and not options.quick else 0.02 if on_cpu else 0.01
    options.pause = 0.06 if on_cpu else 0
    return options


def main():
    options = parse()
    started = time.perf_counter()

    def spent():
        return time.perf_counter() - started
    libraries = {device: Library(options.library, device) for device in options.devices}
    threads = int(os.environ.get("ASHLAR_THREADS", 0)) or len(os.sched_getaffinity(0))
    rival = make_rival(options, threads)
    all_benchmarks = next(iter(libraries.values())).benchmarks()
    wanted, sessions = {}, {}
    os.makedirs(options.results, exist_ok=True)
    bandwidth = rival.bandwidth()
    for device, library in libraries.items():
        target = device.split(":")[0]
        wanted[device] = set(matching(all_benchmarks, options.only or figures.patterns(target, options.quick)))
        head = {"target": target, "device": library.description, "load": os.getloadavg()[0], "threads": threads,
                "versions": {"Ashlar": revision(), **rival.versions, "Python": platform.python_version()},
                "cache_bytes": rival.cache_bytes(),
                "expected": matching(all_benchmarks, figures.patterns(target))}
        sessions[device] = results.Session(options.results, head, options.resume)
        sessions[device].add_bandwidth(bandwidth)
        print(f"{device}: {library.description['description']}, {library.description['driver']}; copy "
              f"{sessions[device].report['bandwidth'] / 1e9:.0f} GB/s; {len(sessions[device].done)} of "
              f"{len(wanted[device])} benchmarks measured already", flush=True)
    measurer = Measurer(options, libraries, rival, wanted)
    begun = [b for b in all_benchmarks if any(b.key in wanted[d] and b.key not in sessions[d].done for d in wanted)]
    wrong = left = 0
    for number, benchmark in enumerate(begun, 1):
        if spent() > options.limit:
            left = len(begun) - number + 1
            break
        try:
            rows = measurer.measure(benchmark)
        except (AshlarError, RuntimeError, MemoryError, WrongNumbers) as error:
            row = {"kernel": benchmark.kernel, "name": benchmark.name, "dtype": benchmark.dtype,
                   "wrong": f"{type(error).__name__}: {str(error)[:300]}"}
            rows = {device: dict(row) for device in wanted if benchmark.key in wanted[device]}
        for device, row in rows.items():
            if benchmark.key in sessions[device].done:
                continue
            sessions[device].add(row, spent())
            wrong += "wrong" in row
            times = "  ".join(f"{name} {ms:.4f}" for name, ms in row.get("ms", {}).items())
            print(f"[{number}/{len(begun)} {spent():.0f} s] {device} {benchmark.key}: "
                  f"{row.get('wrong') or times + ' ms'}", flush=True)
            for name, why in row.get("not", {}).items():
                print(f"    no {name}: {why}", flush=True)
    bandwidth = rival.bandwidth()
    for session in sessions.values():
        session.add_bandwidth(bandwidth)
        session.write(spent())
        print(f"{session.path}: {len(session.report['rows'])} rows; of the figures' benchmarks {len(session.missing())} "
              f"of {len(session.report['expected'])} aren't measured")
    if left:
        print(f"{left} benchmarks not begun, {options.limit:.0f} s are over; --resume goes on")
    return 1 if wrong else 3 if left else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (results.WrongFile, AshlarError) as problem:
        sys.exit(f"measure: {problem}")

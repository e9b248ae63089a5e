#!/usr/bin/env python3
"""Times the benchmarks and rivals in turn, in one process, and writes the measurements as JSON.

    measure.py --library build/lib/libashlar_bench.so --device cuda --against torch --json cuda.json

For each benchmark: random inputs; one call of ours, whose numbers are compared with the rival's in double; then rounds
in which every contender runs one batch of calls that ends in a synchronisation. Reported is each contender's median over
the rounds. A benchmark with wrong numbers isn't timed, and the exit code is 1.
"""
import argparse
import datetime
import fnmatch
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import figures
from ashlar_library import AshlarError, Library, Run

# The largest error of an output over its magnitude (for sums the sum of magnitudes, else the largest value).
LIMITS = {"f64": 1e-12, "f32": 3e-5, "f16": 2e-3, "bf16": 1.6e-2}
TF32_LIMIT = 2e-3


def calls_for(seconds, target, most):
    """How many calls take about `target` seconds."""
    calls = 1
    while True:
        spent = seconds(calls)
        if spent >= target / 2 or calls >= most:
            return max(1, min(most, round(calls * target / max(spent, 1e-9))))
        calls = min(most, calls * max(2, min(20, int(target / max(spent, 1e-9)))))


class Measurer:
    def __init__(self, options, library, rival):
        self.options, self.library, self.rival = options, library, rival
        self.on_cpu = library.device == "cpu"

    def measure(self, benchmark):
        """A row of the report; "wrong" in it says why there are no times."""
        run = Run(self.library, benchmark)
        try:
            inputs = self.rival.inputs(run)
            for _ in range(benchmark.checked_call):
                run.call()
            ours = self.rival.outputs(run)
            sizes = sum(x.nbytes for x in inputs) + sum(y.nbytes for y in ours)
            row = {"kernel": benchmark.kernel, "name": benchmark.name, "dtype": benchmark.dtype,
                   "shapes": [list(x.shape) for x in inputs], "flops": benchmark.flops / benchmark.operations,
                   "bytes": (benchmark.bytes or sizes) / benchmark.operations}
            exact = self.rival.exact(benchmark, inputs)
            if exact is None:
                return None
            row["error"] = self.rival.error(ours, exact)
            del ours, exact
            limit = TF32_LIMIT if benchmark.name.startswith("tf32") else LIMITS[benchmark.dtype]
            if not row["error"] <= limit:
                row["wrong"] = f"error {row['error']:.2e} above {limit:.0e}"
                return row
            row["ms"] = self.times(run, self.rival.contenders(benchmark, inputs))
            if figures.wants_host_time(benchmark):
                row["host_us"] = self.host_microseconds(run)
            for name in row["ms"]:
                row["ms"][name] /= benchmark.operations
            return row
        finally:
            run.close()

    def times(self, run, rivals):
        contenders = {"ashlar": run.seconds, **rivals}
        batch = {}
        for name, seconds in contenders.items():
            seconds(1)
            batch[name] = calls_for(seconds, self.options.batch, 5000)
        rounds = {name: [] for name in contenders}
        end = time.perf_counter() + self.options.seconds * len(contenders)
        while len(rounds["ashlar"]) < self.options.rounds or time.perf_counter() < end:
            for name, seconds in contenders.items():
                if self.on_cpu:
                    time.sleep(self.options.pause)  # the others' threads go on spinning for a while
                    seconds(1)
                rounds[name].append(seconds(batch[name]) / batch[name])
            if len(rounds["ashlar"]) >= 4 * self.options.rounds:
                break
        return {name: statistics.median(times) * 1e3 for name, times in rounds.items()}

    def host_microseconds(self, run):
        """What the host spends on one operation: time until the calls have returned."""
        calls = 200
        run.seconds(calls)
        times = sorted(run.seconds(calls, submit_only=True) for _ in range(15))
        return times[7] / calls / run.benchmark.operations * 1e6


def revision():
    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.exists(os.path.join(here, "revision")):
        with open(os.path.join(here, "revision"), encoding="utf-8") as file:
            return file.read().strip()
    result = subprocess.run(["git", "-C", here, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return result.stdout.strip() or "unknown"


def make_rival(options, threads):
    if "torch" in options.against:
        from torch_rival import TorchRival
        return TorchRival(options.device, options.compile)
    from cpu_rivals import CpuRivals
    return CpuRivals(options.against, threads)


def chosen(benchmarks, options):
    target = options.device.split(":")[0]
    patterns = options.only or figures.patterns(target, options.quick)
    found = [b for b in benchmarks if any(fnmatch.fnmatchcase(b.key, p) for p in patterns)]
    if options.part:
        part, parts = (int(n) for n in options.part.split("/"))
        found = found[part - 1::parts]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--against", default="", help="torch, or a list of openblas, onnxruntime and jax")
    parser.add_argument("--json", required=True)
    parser.add_argument("--only", action="append", help="kernel/name/dtype with * and ?; repeat for several")
    parser.add_argument("--part", help="1/3: the first third of the benchmarks, for machines lent by the minute")
    parser.add_argument("--quick", action="store_true", help="few benchmarks, short rounds")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="without torch.compile")
    parser.add_argument("--rounds", type=int, help="at least this many")
    parser.add_argument("--seconds", type=float, help="for each contender")
    parser.add_argument("--limit", type=float, default=1e9, help="begin no benchmark after this many seconds")
    options = parser.parse_args()
    started = time.perf_counter()
    on_cpu = options.device == "cpu"
    options.against = options.against or ("openblas,onnxruntime,jax" if on_cpu else "torch")
    options.rounds = options.rounds or (5 if options.quick else 7)
    options.seconds = options.seconds or (0.1 if options.quick else 0.5 if on_cpu else 0.1)
    options.batch = 0.02 if options.quick or not on_cpu else 0.05
    options.pause = 0.06  # on the CPU

    library = Library(options.library, options.device)
    threads = int(os.environ.get("ASHLAR_THREADS", 0)) or len(os.sched_getaffinity(0))
    rival = make_rival(options, threads)
    measurer = Measurer(options, library, rival)
    report = {"format": 1, "target": options.device.split(":")[0], "device": library.description,
              "versions": {"Ashlar": revision(), **rival.versions, "Python": platform.python_version()},
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
              "load": os.getloadavg()[0], "threads": threads, "rows": []}
    bandwidths = [rival.bandwidth()]
    print(f"{library.description['description']}, {library.description['driver']}; copy {bandwidths[0] / 1e9:.0f} GB/s")
    for benchmark in chosen(library.benchmarks(), options):
        if time.perf_counter() - started > options.limit:
            print(f"{benchmark.key}: not begun, {options.limit:.0f} s are over")
            continue
        try:
            row = measurer.measure(benchmark)
        except (AshlarError, RuntimeError, MemoryError) as error:
            row = {"kernel": benchmark.kernel, "name": benchmark.name, "dtype": benchmark.dtype,
                   "wrong": f"{type(error).__name__}: {str(error)[:300]}"}
        if row is None:
            print(f"{benchmark.key}: no rival, no numbers to check against")
            continue
        report["rows"].append(row)
        times = "  ".join(f"{name} {ms:.4f}" for name, ms in row.get("ms", {}).items())
        print(f"{benchmark.key}: {row.get('wrong') or times + ' ms'}", flush=True)
        with open(options.json, "w", encoding="utf-8") as file:  # after each, so that an interrupt loses nothing
            json.dump(report, file, indent=1)
    bandwidths.append(rival.bandwidth())
    report["bandwidth"] = max(bandwidths)
    report["seconds"] = round(time.perf_counter() - started)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    return 1 if any("wrong" in row for row in report["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())

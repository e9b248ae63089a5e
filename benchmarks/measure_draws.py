#!/usr/bin/env python3
"""Measures random draws (draws.py) beside rivals, as measure.py does listed benchmarks, and writes them as they come.

    measure_draws.py --library build/lib/libashlar_bench.so --device cuda,opencl --results FOLDER [--seed SEED]

A seed is made up and printed unless given. The draws are measured by a process of their own: when one of them kills it or
takes longer than --patience, that draw's row says so and another process goes on behind it. FOLDER/<target>.jsonl has a head
and then a row a line (distribution.py). The exit code is 1 where numbers of ours were wrong or a draw failed, 3 when --limit
left draws over: the same command with --resume goes on with the same seed.
"""
import argparse
import gc
import math
import os
import platform
import secrets
import subprocess
import sys
import time

import distribution
import draws
import measure
import reach
from ashlar_library import CALLS, CHAINS, AshlarError, Library, Run
from timing import OurContender, chain_length

BROKEN = 70             # exit code of a process whose device doesn't answer any more
TARGETS = {"cpu": "openblas,onnxruntime,onednn,pytorch", "cuda": "torch", "opencl": "numpy"}


MOST_SETS = 128
# What a vendor's library may compute: our kernels alone are measured, too.
OF_VENDORS = ("matmul", "conv2d", "conv2d_input", "conv2d_weight")


class DrawMeasurer(measure.Measurer):
    """Rows of draws: graphs hold several calls, and what a vendor may compute is measured by our kernels alone, too."""

    def sets(self, draw):
        """As many as hold twice the cache, outputs included, where memory is the limit."""
        size = draw.footprint()
        if size < measure.ROTATED_BYTES or draw.flops >= measure.ROTATED_INTENSITY * size:
            return 1
        return min(MOST_SETS, max(1, math.ceil(2 * self.cache / size)))

    def measure(self, draw):
        self.shared = []
        try:
            found = super().measure(draw)
        finally:
            for run in self.shared:
                run.close()
        for row in found.values():
            row.update(family=draw.family, index=draw.index, size=draw.size(), third=draws.THIRDS[draw.index % 3],
                       shapes=[view.shape for view in draw.views])
        return found

    def our_contenders(self, draw, runs, exact):
        found, missing = {}, {}
        for device, run in runs.items():
            ways = {"": run}
            if draw.kernel in OF_VENDORS and not draw.wanted and device.split(":")[0] == "cuda":
                ways[" own"] = run.share("never")
                self.shared.append(ways[" own"])
                self.check(draw, ways[" own"], lambda one: one.call(), exact, f"by our kernel on {device}",
                           measure.limit_of(draw))
            for way, one in ways.items():
                found[device + way] = OurContender(one, CALLS)
                if device.split(":")[0] == "cpu" or not measure.is_short(one):
                    continue
                length = chain_length(one.sets)
                try:
                    one.capture_chain(length)
                except AshlarError as error:
                    missing[f"{device} graph of ours"] = str(error)[:200]
                    continue
                self.check(draw, one, lambda replayed: replayed.replay_chain(), exact, f"replayed on {device}{way}",
                           measure.limit_of(draw, "" if way else device))
                found[device + way + " graph"] = OurContender(one, CHAINS, length)
        return found, missing

    def check(self, draw, run, compute, exact, where, limit):
        compute(run)
        error = self.rival.error(self.rival.outputs(run), exact)
        if not error <= limit:
            raise measure.WrongNumbers(f"{where}: error {error:.2e}")


def make_rival(options, threads):
    if "torch" in options.against.split(","):
        from draw_torch import DrawTorch
        return DrawTorch(options.devices[0], options)
    from draw_cpu import DrawCpu
    return DrawCpu(options.against.split(","), threads, options)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or opencl; several by commas, as cuda,opencl")
    parser.add_argument("--against", help="torch, or a list of openblas, onnxruntime, onednn and pytorch (CPU), or numpy: "
                        "nobody, only the numbers are checked")
    parser.add_argument("--results", required=True, help="folder of <target>.jsonl")
    parser.add_argument("--seed", help="default: a fresh one")
    parser.add_argument("--families", help=f"some of {', '.join(draws.FAMILIES)}; default: those that reach.py speaks of")
    parser.add_argument("--count", type=int, help="draws of each family, 100 by default")
    parser.add_argument("--quick", action="store_true", help="10 draws of each")
    parser.add_argument("--resume", action="store_true", help="go on with what the folder's files have, and their seed")
    parser.add_argument("--limit", type=float, default=1e9, help="begin no draw after this many seconds")
    parser.add_argument("--patience", type=float, default=180, help="seconds after which a draw counts as hanging")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="without torch.compile")
    parser.add_argument("--compile-seconds", type=float, default=20, help="budget of torch.compile for a family")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.devices = options.device.split(",")
    target = options.devices[0].split(":")[0]
    if target not in TARGETS:
        parser.error(f"--device {options.device}: cpu, cuda or opencl are needed")
    options.against = options.against or TARGETS[target]
    options.families = options.families.split(",") if options.families else [
        family for family in draws.FAMILIES if any(
            line.family == family and line.target == device.split(":")[0] for line in reach.ALL for device in options.devices)]
    for family in options.families:
        if family not in draws.FAMILIES:
            parser.error(f"--families {family}: there are {', '.join(draws.FAMILIES)}")
    options.count = options.count or (10 if options.quick else 100)
    options.autotune_seconds = 0
    on_cpu = target == "cpu"
    options.batch, options.pause, options.seconds = (0.01, 0.03, 0) if on_cpu else (0.002, 0, 0)
    return options


def path_of(options, device):
    return os.path.join(options.results, device.split(":")[0] + ".jsonl")


def wanted(options):
    """(family, index), all families' first draws before the second ones."""
    return [(family, index) for index in range(options.count) for family in options.families]


def row_without_times(draw, why):
    return {"kernel": draw.kernel, "name": draw.name, "dtype": draw.dtype, "family": draw.family, "index": draw.index,
            "size": draw.size(), "third": draws.THIRDS[draw.index % 3], "shapes": [view.shape for view in draw.views],
            "wrong": why}


# ---- the process that measures
def work(options):
    libraries = {device: Library(options.library, device) for device in options.devices}
    threads = int(os.environ.get("ASHLAR_THREADS", 0)) or len(os.sched_getaffinity(0))
    rival = make_rival(options, threads)
    files = {}
    for device, library in libraries.items():
        head = {"target": device.split(":")[0], "seed": options.seed, "device": library.description, "threads": threads,
                "load": os.getloadavg()[0], "cache_bytes": rival.cache_bytes(),
                "versions": {"Ashlar": measure.revision(), **rival.versions, "Python": platform.python_version()}}
        files[device] = distribution.File(path_of(options, device), head)
    done = set.intersection(*(file.done for file in files.values()))
    limits = draws.limits_of(options.devices[0])
    for number, (family, index) in enumerate(wanted(options), 1):
        if (family, index) in done:
            continue
        if time.time() > options.until:
            return 3
        one = draws.draw(options.seed, family, index, limits)
        note(options, family, index)
        measurer = DrawMeasurer(options, libraries, rival, {device: {one.key} for device in libraries})
        start, broken = time.perf_counter(), False
        try:
            rows = measurer.measure(one)
        except (AshlarError, RuntimeError, MemoryError, measure.WrongNumbers) as error:
            row = row_without_times(one, f"{type(error).__name__}: {str(error)[:300]}")
            rows = {device: dict(row) for device in libraries}
            gc.collect()
            broken = not answers(rival, libraries)
        for device, row in rows.items():
            row["seconds"] = round(time.perf_counter() - start, 2)
            files[device].add(row)
            times = "  ".join(f"{name} {ms:.4f}" for name, ms in row.get("ms", {}).items())
            print(f"[{number}/{options.count * len(options.families)}] {device} {family} {index}: {one.key}: "
                  f"{row.get('wrong') or times + ' ms'}", flush=True)
        if broken:
            return BROKEN
    return 0


def answers(rival, libraries):
    """Whether devices still work: an illegal access leaves nothing of a CUDA context, a compilation that was interrupted
    nothing of PyTorch's dispatcher."""
    try:
        rival.clean()
        rival.compute_something()
        for library in libraries.values():
            run = Run(library, draws.Draw("neg", [draws.View([8])], [8], "f32"))
            run.call()
            run.close()
        return True
    except (AshlarError, RuntimeError):
        return False


def current_path(options):
    return os.path.join(options.results, "current")


def note(options, family, index):
    """What is measured now, for the process that watches."""
    with open(current_path(options), "w", encoding="utf-8") as file:
        file.write(f"{family} {index}")


# ---- the process that watches it
def forget(options):
    if os.path.exists(current_path(options)):
        os.remove(current_path(options))


def watch(options):
    """Starts workers until all draws have a row or the time is over. (worker's exit code, draws that broke a worker)"""
    failures = 0
    while True:
        forget(options)
        worker = subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--worker", "--resume",
                                   "--seed", options.seed, "--limit", str(options.until)])
        hangs = wait(worker, options)
        if worker.returncode in (0, 3):
            forget(options)
            return worker.returncode, failures
        if worker.returncode == BROKEN:
            continue
        if not os.path.exists(current_path(options)):
            return worker.returncode, failures  # it never got to a draw
        with open(current_path(options), encoding="utf-8") as file:
            family, index = file.read().split()
        one = draws.draw(options.seed, family, int(index), draws.limits_of(options.devices[0]))
        why = f"takes longer than {options.patience:g} s" if hangs else \
            f"the process ended with signal {-worker.returncode}" if worker.returncode < 0 else \
            f"the process ended with code {worker.returncode}"
        print(f"{family} {index}: {one.key}: {why}", flush=True)
        failures += 1
        for device in options.devices:
            file = distribution.File(path_of(options, device))
            if (family, int(index)) not in file.done:
                file.add(row_without_times(one, why))


def wait(worker, options):
    """True when it had to be killed."""
    while True:
        try:
            worker.wait(1)
            return False
        except subprocess.TimeoutExpired:
            current = current_path(options)
            if os.path.exists(current) and time.time() - os.path.getmtime(current) > options.patience:
                worker.kill()
                worker.wait()
                return True


def main():
    options = parse()
    if options.worker:
        options.until = options.limit
        return work(options)
    os.makedirs(options.results, exist_ok=True)
    options.until = time.time() + options.limit
    paths = [path_of(options, device) for device in options.devices]
    seeds = {distribution.read(path)["seed"] for path in paths if os.path.exists(path)} if options.resume else set()
    if options.seed is None and len(seeds) == 1:
        options.seed = seeds.pop()
    if any(seed != options.seed for seed in seeds):
        raise distribution.WrongFile(f"--resume: {options.results} has the seed {', '.join(seeds)}; give that one, or measure "
                                     "without --resume")
    options.seed = options.seed or str(secrets.randbelow(10**9))
    if not options.resume:
        for path in paths:
            if os.path.exists(path):
                os.remove(path)
    print(f"seed {options.seed}: {options.count} draws of {', '.join(options.families)}", flush=True)
    code, failures = watch(options)
    if code not in (0, 3):
        return code
    wrong = failures
    for path in paths:
        report = distribution.read(path)
        bad = [row for row in report["rows"] if "wrong" in row]
        for row in bad:
            print(f"{path}: {row['family']} {row['index']}: {distribution.key(row)}: {row['wrong']}")
        wrong += len(bad)
        print(f"{path}: {len(report['rows'])} draws, {len(bad)} without times")
    if code == 3:
        print(f"draws are left, {options.limit:.0f} s are over; --resume goes on")
    return 1 if wrong else code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (distribution.WrongFile, AshlarError) as problem:
        sys.exit(f"measure_draws: {problem}")

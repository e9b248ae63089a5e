#!/usr/bin/env python3
"""Measures the device memory that training steps of networks take, beside PyTorch's of the same steps in one process, prints
it and writes FOLDER/memory.json (memory_table.py).

    measure_memory.py --library build/lib/libashlar_bench.so --device cuda --results FOLDER

For each step: the first call makes the model and is followed by giving back what the allocator keeps free; then come the
others, of which ours are captured and replayed as nn::fit() does. What is reported is the most since then, less what was
there before the model: the batch and the first values of the parameters. PyTorch says the same of itself by
torch.cuda.max_memory_allocated and max_memory_reserved. On a device without PyTorch's statistics (cpu, opencl) ours stands
alone. Times and numbers are measure.py's business; here the loss only has to be finite.
"""
import argparse
import array
import ctypes
import datetime
import fnmatch
import functools
import gc
import json
import math
import os
import platform
import random
import sys

import memory_table
from ashlar_library import AshlarError, Library, Run
from measure import revision

STEPS = ("mlp_step", "cnn_step", "transformer_step", "gru_step")
CODES = {"f32": "f", "i64": "q"}


def fill(run):
    """Random numbers, of which a few thousand come over again: they have to be such that the network computes."""
    generator = random.Random(1)
    for i, (spec, described) in enumerate(zip(run.benchmark.inputs, run.tensors("inputs"))):
        count = math.prod(described["shape"])
        low, high, code = spec["low"], spec["high"], CODES[described["dtype"]]
        few = [generator.uniform(low, high) if code == "f" else generator.randint(int(low), int(high))
               for _ in range(min(count, 4099))]
        values = (array.array(code, few) * -(-count // max(len(few), 1)))[:count]
        run.write(i, values.buffer_info()[0])


def ours(library, run, calls):
    """{"live", "held"} in bytes: the most since the first call, less what was there before."""
    fill(run)
    library.trim()
    before = library.memory()
    run.call()
    library.trim()
    for _ in range(calls - 1):
        run.call()
    after = library.memory()
    loss = ctypes.c_float(math.nan)
    run.read(0, ctypes.addressof(loss))
    if not math.isfinite(loss.value):
        raise AshlarError(f"the loss is {loss.value}")
    return {"live": after["peak_live"] - before["live"], "held": after["held"] - before["held"]}


class Torch:
    """PyTorch's ways of the same steps on CUDA."""

    def __init__(self, options):
        import torch
        from torch_programs import STATEFUL
        from torch_rival import TorchRival
        self.torch, self.steps = torch, STATEFUL
        self.rival = TorchRival("cuda", options)
        self.versions = self.rival.versions

    def clear(self):
        self.torch.cuda.synchronize()
        if self.rival.compiler:
            self.torch._dynamo.reset()  # it keeps what it has compiled, and with it the model
        gc.collect()
        # What products work in is kept by the library's handles otherwise, and would count for the first way alone.
        getattr(self.torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
        self.torch.cuda.empty_cache()

    def peak(self, make, is_graph, calls):
        """As ours(), of the step that `make` returns."""
        cuda = self.torch.cuda
        self.clear()
        before = cuda.memory_allocated(), cuda.memory_reserved()
        step = make()
        step()
        cuda.synchronize()
        gc.collect()
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        if is_graph:
            step = self.rival.graphs([step])[0]
        for _ in range(calls - 1):
            step()
        cuda.synchronize()
        return {"live": cuda.max_memory_allocated() - before[0], "held": cuda.max_memory_reserved() - before[1]}

    def compiled(self, step):
        if not self.rival.compiler:
            raise RuntimeError("--no-compile")
        program, why = self.rival.compiler.compile(step)
        if program is None:
            raise RuntimeError(why)
        return program

    def measure(self, run, calls):
        """({way: {"live", "held"}}, {way: why not})"""
        inputs = [self.rival.wrap(described) for described in run.tensors("inputs")]
        fused = {"fused": True, "capturable": True}

        def step(change=lambda f: f, **options):
            return functools.partial(self.steps[run.benchmark.kernel](*inputs, change=change, **options), *inputs)
        ways = {"eager": (step, False), "fused": (functools.partial(step, **fused), False),
                "graph": (functools.partial(step, **fused), True)}
        for name, is_graph in (("compiled", False), ("compiled graph", True)):
            ways[name] = functools.partial(self.compiled, lambda change: step(change, **fused)), is_graph
        found, missing = {}, {}
        for name, (make, is_graph) in ways.items():
            try:
                found[name] = self.peak(make, is_graph, calls)
            except RuntimeError as error:  # out of memory, can't be captured, can't be compiled
                missing[name] = (str(error).splitlines() or [type(error).__name__])[0][:200]
        self.clear()
        return found, missing


def row_of(library, benchmark, torch, calls):
    row = {"kernel": benchmark.kernel, "name": benchmark.name, "dtype": benchmark.dtype}
    run = None
    try:
        run = Run(library, benchmark)
        row["ashlar"] = ours(library, run, calls)
        if torch:
            row["torch"], missing = torch.measure(run, calls)
            if missing:
                row["not"] = missing
    except (AshlarError, MemoryError) as error:
        row["wrong"] = f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        if run:
            run.close()
    return row


def said(row):
    """A line for who waits."""
    if "wrong" in row:
        return row["wrong"]
    ways = {"ashlar": row["ashlar"], **{f"torch {way}": of for way, of in row.get("torch", {}).items()}}
    text = ";  ".join(f"{name} {memory_table.megabytes(of['live'])} live, {memory_table.megabytes(of['held'])} held"
                      for name, of in ways.items())
    ratios = [memory_table.ratio(row, what) for what in ("live", "held")]
    return text + " MB" + (";  ratios {:.2f}, {:.2f}".format(*ratios) if None not in ratios else "")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--device", default="cuda", help="cuda; cpu and opencl measure our side alone")
    parser.add_argument("--against", choices=("torch", "none"), help="default: torch on cuda, else none")
    parser.add_argument("--results", required=True, help="folder of memory.json")
    parser.add_argument("--only", action="append", help="kernel/name/dtype with * and ?; repeat for several")
    parser.add_argument("--quick", action="store_true", help="batches of 64 alone, without torch.compile")
    parser.add_argument("--calls", type=int, default=6, help="steps of each")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="without torch.compile")
    parser.add_argument("--compile-seconds", type=float, default=120, help="budget of torch.compile for a step")
    options = parser.parse_args(arguments)
    options.autotune_seconds = 0
    options.compile = options.compile and not options.quick
    options.only = options.only or (["*/batch_64/*"] if options.quick else ["*"])
    options.against = options.against or ("torch" if options.device.split(":")[0] == "cuda" else "none")
    if options.calls < 3:
        parser.error("--calls: 3 or more; the second is captured, the third replayed")
    if options.against == "torch" and options.device != "cuda":
        parser.error("--against torch is for --device cuda: PyTorch's statistics are of CUDA's memory")
    return options


def main(arguments=None):
    options = parse(arguments)
    try:
        library = Library(options.library, options.device)
    except AshlarError as problem:
        sys.exit(f"measure_memory: {problem}\n--device cpu measures our side alone")
    try:
        torch = Torch(options) if options.against == "torch" else None
    except (ImportError, RuntimeError, AssertionError) as problem:  # not there, without CUDA, built without CUDA
        sys.exit(f"measure_memory: PyTorch for CUDA is needed: {problem}\n--against none measures our side alone")
    chosen = [b for b in library.benchmarks() if b.kernel in STEPS and any(fnmatch.fnmatchcase(b.key, p) for p in options.only)]
    if not chosen:
        sys.exit(f"measure_memory: no training step is called {' or '.join(options.only)}")
    print(f"{options.device}: {library.description['description']}, {library.description['driver']}" +
          ("" if torch else "; our side alone"), flush=True)
    report = {"format": 1, "target": options.device.split(":")[0], "device": library.description,
              "versions": {"Ashlar": revision(), **(torch.versions if torch else {}), "Python": platform.python_version()},
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "calls": options.calls,
              "rows": []}
    os.makedirs(options.results, exist_ok=True)
    path = os.path.join(options.results, memory_table.FILE)
    for benchmark in chosen:
        row = row_of(library, benchmark, torch, options.calls)
        report["rows"].append(row)
        print(f"{benchmark.key}: {said(row)}", flush=True)
        for way, why in row.get("not", {}).items():
            print(f"    no {way}: {why}", flush=True)
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
        os.replace(path + ".part", path)
    print(path)
    return 1 if any("wrong" in row for row in report["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())

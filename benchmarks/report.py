#!/usr/bin/env python3
"""Writes the report from measurements (measure.py): docs/benchmarks.md and its plots.

    report.py docs/results/benchmarks/*.json --out docs/benchmarks.md [--notes docs/results/benchmarks/notes.md]
              [--draws docs/results/benchmarks/draws]

One file for each target (results.py), memory.json (memory_table.py) if there is one, and one of random draws (distribution.py) in the folder of --draws, where it was
measured. Notes are sections of Markdown, "## cuda" and so on, which stand behind the tables of
their target and take their numbers from the measurements (notes.py).
"""
import argparse
import os
import sys

import distribution
import draws
import figures
import memory_table
import notes
import plots
import reach
import results
from verdicts import asked, verdict

TITLES = {"cpu": "On the CPU", "cuda": "CUDA", "opencl": "OpenCL"}


def figure_rows(report):
    """(work, what is asked, worst, where, verdict) for each Reach."""
    for figure in figures.ALL:
        if figure.target == report["target"]:
            for reach in figure.reaches:
                yield figure.work, asked(reach), *verdict(reach, report)


def rate(row):
    seconds = results.ours(row)[1] / 1e3
    if row["flops"]:
        return f"{row['flops'] / seconds / 1e9:.0f} GFLOP/s"
    return f"{row['bytes'] / seconds / 1e9:.0f} GB/s"


def table(header, lines):
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)] + ["| " + " | ".join(l) + " |" for l in lines]


def number(ms, spread):
    """Median and half the distance from the 10th to the 90th percentile."""
    half = (spread[1] - spread[0]) / 2 / ms
    return (f"{ms:.4f}" if ms < 1 else f"{ms:.2f}") + (f" ±{half:.0%}" if half >= 0.01 else "")


def times(row, names):
    return ", ".join((f"{name} " if name != "ashlar" else "") + number(row["ms"][name], results.spread(row, name))
                     for name in names)


def sizes_of(row):
    shapes = row.get("shapes", [])
    return ", ".join("×".join(map(str, shape)) or "1" for shape in shapes[:3]) + (", …" if len(shapes) > 3 else "")


def details(report):
    """The table of all rows, and below it why rivals are missing."""
    reasons = {}
    beside = sorted({target for row in report["rows"] for target in row.get("beside", {})}) \
        if report["target"] == "opencl" else []
    lines = []
    for row in report["rows"]:
        head = [row["kernel"], row["name"], row["dtype"], sizes_of(row)]
        if "ms" not in row:
            lines.append(head + [""] * (5 + len(beside)) + [row["wrong"]])
            continue
        theirs = [times(row, results.rivals_of(row))] if results.rivals_of(row) else []
        for name, why in row.get("not", {}).items():
            theirs.append(f"no {name} ({reasons.setdefault(why, len(reasons) + 1)})")
        ratio = results.ratio(row)
        others = [row.get("beside", {}).get(target) for target in beside]
        lines.append(head + [str(row.get("sets", "")), times(row, [n for n in row["ms"] if results.is_ours(n)])
                             .replace("ashlar ", ""), rate(row), f"{results.share(row, report['bandwidth']):.2f}"]
                     + [number(*min((ms, other["spread"][name]) for name, ms in other["ms"].items())) if other else ""
                        for other in others]
                     + [", ".join(theirs), f"{ratio:.2f}" if ratio else ""])
    header = ("kernel", "benchmark", "dtype", "inputs", "sets", "ms", "rate", "of copy",
              *(f"{TITLES[target]}, ms" for target in beside), "rivals, ms", "ratio")
    below = [f"{i}. {why}" for why, i in reasons.items()]
    return table(header, lines) + (["", "Why there is no such rival:", ""] + below if below else [])


def section(report, folder, out):
    device = report["device"]
    lines = [f"## {TITLES[report['target']]}: {device['description']}", ""]
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    bandwidth = report["bandwidth"]
    dates = report.get("dates") or [report["date"]]
    cache = f" Last cache: {report['cache_bytes'] / 2**20:.0f} MB." if report.get("cache_bytes") else ""
    lines += [f"Driver: {device['driver']}. Host: {device['cpu']}, {report['threads']} threads. Versions: {versions}. "
              f"Copy bandwidth in the run: {bandwidth / 1e9:.0f} GB/s.{cache} {', '.join(dates)}; load of the host at the "
              f"start {report['load']:.1f}.", ""]
    lines += table(("work", "asked", "worst", "where", ""), figure_rows(report))
    right = [row for row in report["rows"] if "ms" in row]
    for kind, draw in (("ratios", plots.ratios), ("roofline", plots.roofline)):
        path = os.path.join(folder, f"{report['target']}-{kind}.svg")
        draw(right, bandwidth, f"{device['description']}", path)
        lines += ["", f"![{kind} on {device['description']}]({os.path.relpath(path, os.path.dirname(out))})"]
    lines += ["", "Every measured benchmark; the ratio is the quickest rival's time over ours, above 1 Ashlar is faster.", ""]
    return lines + details(report)


def draw_panels(report):
    """(title, axis, points) of each line of the target's table that has ratios."""
    for line in reach.ALL:
        points = [(row["size"], value) for value, row in distribution.ratios_of(line, report)]
        if line.target == report["target"] and points:
            yield line.work, "flops" if line.family in draws.OF_FLOPS else "bytes", points


def draws_section(folder, pictures, out):
    """Random draws of all targets; what wasn't measured says so."""
    lines = DRAWS.splitlines()
    for target in ("cuda", "opencl", "cpu"):
        path = distribution.file_of(folder, target)
        report = distribution.read(path) if path else None
        panels, picture = list(draw_panels(report)) if report else [], None
        if panels:
            where = os.path.join(pictures, f"{target}-draws.svg")
            plots.distribution(panels, report["device"]["description"], where)
            picture = os.path.relpath(where, os.path.dirname(out))
        lines += ["", *distribution.section(target, TITLES[target], report, picture)]
    return lines


INTRODUCTION = """# Benchmarks

Written by `./dev bench` from the measurements in [results/benchmarks](results/benchmarks); don't edit. Sizes drawn at random
come first, since nobody can tune to them; [lists of chosen sizes](#chosen-sizes) follow.
"""

DRAWS = """## Random sizes

`./dev bench --random` draws sizes, layouts and element types of each family's operators anew and measures them beside rivals;
[measure-random-sizes.md](how-to/measure-random-sizes.md) says how to read and repeat it. Below are the geometric mean, tenth
percentile and worst of the quickest rival's time over ours (above 1 Ashlar is faster), and what is asked of them
([reach.py](../benchmarks/reach.py)). A family is **reached** only by 100 draws or more, all with right numbers and with both
times. On the CPU PyTorch computes convolutions by the oneDNN that it was built with; the other oneDNN of the list is a rival of its
own in products, layers, softmax, norms, activations, GRU and LSTM."""

METHOD = """## Chosen sizes

Repeat: `./dev bench`, `./dev bench --device cuda,opencl` where compiler and GPU share a machine, else
[on a GPU machine](how-to/run-on-a-gpu.md). `benchmarks/regression.py OLD NEW` fails when a ratio fell by more than 10 %
and by more than the spreads explain.

### Method

- **Side by side.** Each benchmark and its rivals run in one process on the same random inputs: first calls, whose numbers
  are compared with the same in double, ours and the rivals' (but of programs that keep state only ours); then rounds in which every contender runs one call that isn't
  timed and a batch of calls that ends in a synchronisation. OpenCL's rows run in the rounds of CUDA's. Rivals are
  [benchmarks/torch_rival.py](../benchmarks/torch_rival.py) on a GPU and
  [benchmarks/cpu_rivals.py](../benchmarks/cpu_rivals.py) on the CPU.
- **Medians** over the rounds. ±3 % is half the distance from the 10th to the 90th percentile; below 1 % it isn't written.
- **Inputs rotate.** Where memory is the limit (under 64 flops a byte, from 1 MB), "sets" copies of the inputs hold at
  least twice the last cache together; calls and graphs take them in turn and keep each set's outputs, so that nothing of a
  call is in a cache when its set comes round again. Every set is called once before anything is timed. Smaller inputs,
  products limited by arithmetic and programs that keep state (training steps, Adam) have one set.
- **"torch"** is the quickest of PyTorch: eager; compiled (`torch.compile`); autotuned (its mode "max-autotune", tried on
  products that are skinny or small and two large ones); and "graph", each of these replayed as a CUDA graph, for calls
  under 0.1 ms, which a launch can limit. Ours is captured in a graph there too ("graph"), and the quicker of ours counts.
  A row says which rival it hasn't, and why.
- **fp32 is strict**: no TF32. "bandwidth" and "of copy" refer to a copy of 64M floats in the same run (of twice the last
  cache where that is larger), bytes read and written counted.
- **A figure is reached** only when each of its benchmarks was measured and has right numbers.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*")
    parser.add_argument("--out", required=True)
    parser.add_argument("--notes")
    parser.add_argument("--draws", help="folder of <target>.jsonl, or packed as <target>.jsonl.xz")
    options = parser.parse_args()
    try:
        paths = [path for path in options.results if not memory_table.is_memory(path)]
        reports = {report["target"]: report for report in map(results.read, paths)}
        of_memory = [memory_table.read(path) for path in options.results if memory_table.is_memory(path)]
        texts = notes.read(options.notes)
        texts = {target: notes.filled(text, reports) for target, text in texts.items() if target in reports}
    except (results.WrongFile, notes.WrongNote) as problem:
        sys.exit(f"report: {problem}")
    folder = os.path.splitext(options.out)[0]
    os.makedirs(folder, exist_ok=True)
    lines = INTRODUCTION.splitlines()
    if options.draws:
        lines += ["", *draws_section(options.draws, folder, options.out)]
    lines += ["", *METHOD.splitlines()] if reports else []
    for target in ("cuda", "opencl", "cpu"):
        if target in reports:
            lines += [""] + section(reports[target], folder, options.out)
            if target in texts:
                lines += ["", f"### What limits {TITLES[target]}" if target != "cpu" else "### What limits the CPU", "",
                          texts[target]]
    for report in of_memory:
        lines += ["", *memory_table.section(report)]
    with open(options.out, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(f"report: {options.out}, {sum(len(report['rows']) for report in reports.values())} benchmarks")


if __name__ == "__main__":
    try:
        main()
    except results.WrongFile as problem:
        sys.exit(f"report: {problem}")

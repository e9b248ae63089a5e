#!/usr/bin/env python3
"""Writes the report from measurements (measure.py): docs/benchmarks.md and its plots.

    report.py docs/results/benchmarks/*.json --out docs/benchmarks.md [--notes docs/results/benchmarks/notes.md]

One file for each run; several runs of one device (see --part of measure.py) are shown together. Notes are sections of
Markdown, "## cuda" and so on, which stand behind the tables of their device.
"""
import argparse
import json
import os
import re
import sys

import figures
import plots

TITLES = {"cpu": "On the CPU", "cuda": "CUDA", "opencl": "OpenCL"}


def contender_ms(row, of):
    """The quickest contender whose name begins with `of`."""
    times = [ms for name, ms in row["ms"].items() if name != "ashlar" and name.startswith(of)]
    return min(times) if times else None


def quickest(row):
    """(name, ms) of the quickest rival, or None."""
    rivals = {name: ms for name, ms in row["ms"].items() if name != "ashlar"}
    return min(rivals.items(), key=lambda item: item[1]) if rivals else None


def key(row):
    return f"{row['kernel']}/{row['name']}/{row['dtype']}"


class Runs:
    """All measurements of one target."""

    def __init__(self, target, reports):
        self.target, self.reports = target, reports
        self.rows = {}
        for report in reports:
            for row in report["rows"]:
                self.rows[key(row)] = {**row, "bandwidth": report["bandwidth"]}
        self.right = [row for row in self.rows.values() if "ms" in row]

    def value(self, row, of, others):
        """What a Reach speaks of, or None where it wasn't measured."""
        if "ms" not in row:
            return None
        ours = row["ms"]["ashlar"]
        if of == "bandwidth":
            return row["bytes"] / (ours / 1e3) / row["bandwidth"]
        if of == "us":
            return ours * 1e3
        if of == "host_us":
            return row.get("host_us")
        if of in others:  # the same benchmark on another target
            other = others[of].rows.get(key(row), {})
            return other["ms"]["ashlar"] / ours if "ms" in other else None
        theirs = contender_ms(row, of)
        return theirs / ours if theirs else None


def figure_rows(runs, others):
    """(work, what is asked, worst, where, how many of how many reach it) for each Reach."""
    for figure in figures.ALL:
        if figure.target != runs.target:
            continue
        for reach in figure.reaches:
            at_most = reach.of in ("us", "host_us")
            values = [(runs.value(row, reach.of, others), key(row)) for row in runs.rows.values() if reach.matches(row)]
            wrong = [where for value, where in values if value is None and "wrong" in runs.rows[where]]
            values = [v for v in values if v[0] is not None]
            asked = f"≤ {reach.value:g} µs" if at_most else f"≥ {reach.value:g} × {reach.of}"
            if not values:
                yield figure.work, asked, "", "not measured", "wrong numbers" if wrong else "–"
                continue
            worst, where = (max if at_most else min)(values)
            good = sum(v <= reach.value if at_most else v >= reach.value for v, _ in values)
            verdict = "**reached**" if good == len(values) and not wrong else f"missed: {good} of {len(values)} reach it"
            yield figure.work, asked, f"{worst:.2f}", where, verdict


def rate(row):
    seconds = row["ms"]["ashlar"] / 1e3
    if row["flops"]:
        return f"{row['flops'] / seconds / 1e9:.0f} GFLOP/s"
    return f"{row['bytes'] / seconds / 1e9:.0f} GB/s"


def table(header, lines):
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)] + ["| " + " | ".join(l) + " |" for l in lines]


def number(ms):
    return f"{ms:.4f}" if ms < 1 else f"{ms:.2f}"


def section(runs, others, folder, out):
    first = runs.reports[0]
    device = first["device"]
    lines = [f"## {TITLES[runs.target]}: {device['description']}", ""]
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    bandwidth = max(report["bandwidth"] for report in runs.reports)
    dates = sorted({report["date"] for report in runs.reports})
    lines += [f"Driver: {device['driver']}. Host: {device['cpu']}, {first['threads']} threads. Versions: {versions}. "
              f"Copy bandwidth in the run: {bandwidth / 1e9:.0f} GB/s. {', '.join(dates)}; load of the host at the start "
              f"{max(report['load'] for report in runs.reports):.1f}.", ""]
    lines += table(("work", "asked", "worst", "where", ""), figure_rows(runs, others))
    for kind, draw in (("ratios", plots.ratios), ("roofline", plots.roofline)):
        path = os.path.join(folder, f"{runs.target}-{kind}.svg")
        draw(runs.right, bandwidth, f"{device['description']}", path)
        lines += ["", f"![{kind} on {device['description']}]({os.path.relpath(path, os.path.dirname(out))})"]
    lines += ["", "Every measured benchmark; the ratio is the quickest rival's time over ours, above 1 Ashlar is faster.", ""]
    details = []
    for row in runs.rows.values():
        sizes = ", ".join("×".join(map(str, shape)) or "1" for shape in row.get("shapes", [])[:3])
        if len(row.get("shapes", [])) > 3:
            sizes += ", …"
        if "ms" not in row:
            details.append((row["kernel"], row["name"], row["dtype"], sizes, "", "", "", "", row["wrong"]))
            continue
        best = quickest(row)
        details.append((row["kernel"], row["name"], row["dtype"], sizes, number(row["ms"]["ashlar"]), rate(row),
                        f"{row['bytes'] / (row['ms']['ashlar'] / 1e3) / row['bandwidth']:.2f}",
                        ", ".join(f"{name} {number(ms)}" for name, ms in row["ms"].items() if name != "ashlar"),
                        f"{best[1] / row['ms']['ashlar']:.2f}" if best else ""))
    lines += table(("kernel", "benchmark", "dtype", "inputs", "ms", "rate", "of copy", "rivals, ms", "ratio"), details)
    return lines


def read_notes(path):
    """{target: Markdown}"""
    if not path:
        return {}
    with open(path, encoding="utf-8") as file:
        parts = re.split(r"^## (\w+)\n", file.read(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], (text.strip() for text in parts[2::2])))


INTRODUCTION = """# Benchmarks

Written by `./dev bench` from the measurements in [results/benchmarks](results/benchmarks); don't edit. Each benchmark ran
beside its rivals in one process, on the same random inputs: first one call, whose numbers are compared with the same in
double, then rounds in which every contender runs a batch of calls that ends in a synchronisation; times are medians over
the rounds. fp32 is strict: no TF32. "bandwidth" is a copy of 64M floats in the same run, bytes read and written counted;
"torch" is the quickest of PyTorch eager, compiled and as a CUDA graph. Repeat: `./dev bench`, `./dev bench --device cuda`
where compiler and GPU share a machine, else [on a GPU machine](how-to/run-on-a-gpu.md). `benchmarks/regression.py OLD NEW`
fails when a ratio fell by more than 10 %.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--out", required=True)
    parser.add_argument("--notes")
    options = parser.parse_args()
    by_target = {}
    for path in sorted(options.results):
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        if "bandwidth" not in report:
            sys.exit(f"report: {path} is of a run that didn't end; measure again")
        by_target.setdefault(report["target"], []).append(report)
    runs = {target: Runs(target, reports) for target, reports in by_target.items()}
    folder = os.path.splitext(options.out)[0]
    os.makedirs(folder, exist_ok=True)
    notes = read_notes(options.notes)
    lines = INTRODUCTION.splitlines()
    for target in ("cuda", "opencl", "cpu"):
        if target in runs:
            lines += [""] + section(runs[target], runs, folder, options.out)
            if target in notes:
                lines += ["", f"### What limits {TITLES[target]}" if target != "cpu" else "### What limits the CPU", "",
                          notes[target]]
    with open(options.out, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(f"report: {options.out}, {sum(len(r.rows) for r in runs.values())} benchmarks")


if __name__ == "__main__":
    main()

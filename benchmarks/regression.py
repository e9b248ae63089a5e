#!/usr/bin/env python3
"""Compares two measurements (measure.py) of one kind of device and fails where a ratio fell by more than 10 %.

    regression.py OLD.json NEW.json [--allowed 0.10]

A ratio is a rival's time over ours, of the rival that was the quickest in the old run: both sides of it were timed in turn
in one run, so that a slower machine or a busy day cancels out. Benchmarks without rivals are compared by their share of the
run's copy bandwidth. A benchmark that has gone, or whose numbers have become wrong, fails too.
"""
import argparse
import json
import sys


def key(row):
    return row["kernel"], row["name"], row["dtype"]


def ratio(row, rival, report):
    """The rival's time over ours, or our share of the bandwidth; None where it can't be told."""
    if "ms" not in row:
        return None
    ours = row["ms"]["ashlar"]
    if rival is None:
        return row["bytes"] / (ours / 1e3) / report["bandwidth"]
    return row["ms"][rival] / ours if rival in row["ms"] else None


def quickest(row):
    rivals = {name: ms for name, ms in row["ms"].items() if name != "ashlar"}
    return min(rivals, key=rivals.get) if rivals else None


def compare(old, new, allowed):
    """(lines to print, whether anything fell)."""
    now = {key(row): row for row in new["rows"]}
    lines, fell = [], False
    for before in old["rows"]:
        if "ms" not in before:
            continue
        name = "/".join(key(before))
        rival = quickest(before)
        after = now.get(key(before))
        value = ratio(after, rival, new) if after else None
        if value is None:
            why = "is gone" if after is None else after.get("wrong") or f"has no time of {rival}"
            lines.append(f"{name}: {why}")
            fell = True
            continue
        was = ratio(before, rival, old)
        if value < was * (1 - allowed):
            lines.append(f"{name}: {rival or 'bandwidth'} ratio fell from {was:.3f} to {value:.3f}")
            fell = True
    return lines, fell


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--allowed", type=float, default=0.10)
    options = parser.parse_args()
    reports = []
    for path in (options.old, options.new):
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    old, new = reports
    if old["target"] != new["target"]:
        print(f"regression: {options.old} is of {old['target']}, {options.new} of {new['target']}", file=sys.stderr)
        return 2
    lines, fell = compare(old, new, options.allowed)
    for line in lines:
        print(line)
    compared = sum("ms" in row for row in old["rows"])
    print(f"{compared} benchmarks compared, {len(lines)} fell by more than {options.allowed:.0%} or are gone")
    return 1 if fell or not compared else 0


if __name__ == "__main__":
    sys.exit(main())

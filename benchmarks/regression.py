#!/usr/bin/env python3
"""Compares two measurements (measure.py) of one kind of device and fails where a ratio fell by more than 10 %.

    regression.py OLD.json NEW.json [--allowed 0.10]

A ratio is a rival's time over ours, of the rival that was the quickest in the old run: both sides of it were timed in turn
in one run, so that a slower machine or a busy day cancels out. Benchmarks without rivals are compared by their share of the
run's copy bandwidth. A fall that the spreads of the two runs explain (their ratios' ranges, from 10th and 90th percentiles,
overlap) is told but doesn't fail, unless it is twice as much as is allowed. A benchmark that has gone, or whose numbers have
become wrong, fails too.
"""
import argparse
import sys

import results


def ratio(row, rival, report):
    """(median, least, most) of the rival's time over ours, or of our share of the bandwidth; None where it can't be told."""
    if "ms" not in row:
        return None
    name, ours = results.ours(row)
    quick, slow = results.spread(row, name)
    if rival is None:
        shares = [row["bytes"] / (ms / 1e3) / report["bandwidth"] for ms in (ours, slow, quick)]
        return tuple(shares)
    if rival not in row["ms"]:
        return None
    low, high = results.spread(row, rival)
    return row["ms"][rival] / ours, low / slow, high / quick


def compare(old, new, allowed):
    """(lines to print, how many fell)."""
    now = {results.key(row): row for row in new["rows"]}
    lines, fell = [], 0
    for before in old["rows"]:
        if "ms" not in before:
            continue
        name = results.key(before)
        rival = results.quickest(results.rivals_of(before))
        rival = rival and rival[0]
        after = now.get(name)
        value = ratio(after, rival, new) if after else None
        if value is None:
            why = "is gone" if after is None else after.get("wrong") or f"has no time of {rival}"
            lines.append(f"{name}: {why}")
            fell += 1
            continue
        was = ratio(before, rival, old)
        if value[0] < was[0] * (1 - allowed):
            what = f"{name}: {rival or 'bandwidth'} ratio fell from {was[0]:.3f} to {value[0]:.3f}"
            if value[2] >= was[1] and value[0] >= was[0] * (1 - 2 * allowed):
                lines.append(f"{what}, within the spread ({was[1]:.3f} to {was[2]:.3f}, {value[1]:.3f} to "
                             f"{value[2]:.3f}); measure again")
            else:
                lines.append(what)
                fell += 1
    return lines, fell


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--allowed", type=float, default=0.10)
    options = parser.parse_args()
    try:
        old, new = results.read(options.old), results.read(options.new)
    except results.WrongFile as problem:
        print(f"regression: {problem}", file=sys.stderr)
        return 2
    if old["target"] != new["target"]:
        print(f"regression: {options.old} is of {old['target']}, {options.new} of {new['target']}", file=sys.stderr)
        return 2
    lines, fell = compare(old, new, options.allowed)
    for line in lines:
        print(line)
    compared = sum("ms" in row for row in old["rows"])
    print(f"{compared} benchmarks compared, {fell} fell by more than {options.allowed:.0%} or are gone")
    return 1 if fell or not compared else 0


if __name__ == "__main__":
    sys.exit(main())

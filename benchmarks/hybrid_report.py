#!/usr/bin/env python3
"""Writes the measured part of docs/hybrid.md, and its plots, from what `ashlar-hybrid compare` wrote.

    hybrid_report.py docs/results/hybrid-cpu.jsonl [docs/results/hybrid-cuda.jsonl] [--page docs/hybrid.md]

All statistics are of the averaged weights on the test split, which no choice was made on.
"""
import argparse
import json
import math
import random
import statistics
from pathlib import Path

import plots

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
KINDS = {"plain": "#888888", "direction": "#1b6ca8", "direction, dense": "#0b2f4a",
         "line": "#c8553d", "modes": "#5b8c5a", "last_move": "#8a5a9e", "samples by forecast": "#d9a441"}


def cost(row):
    """Steps computed, and the time of the forecasts in steps of the same run: what a busy machine can't blur."""
    return row["computed"] * row["seconds"] / max(row["seconds"] - row["predict_seconds"], 1e-9)


def setting(row):
    return tuple(row[name] for name in ("schedule", "learning_rate", "beta2", "forecaster", "window", "horizon",
                                        "lookahead")) + (row.get("dense", False), row.get("sampler", ""))


def kind_of(row):
    if row.get("sampler"):
        return "samples by forecast" + (", unlimited" if row["sampler"].endswith("unlimited") else "")
    return row["forecaster"] + (", dense" if row.get("dense") else "")


def is_plain(row):
    return row["forecaster"] == "none" and not row["lookahead"] and not row.get("sampler")


def by_seed(rows):
    return {row["seed"]: row for row in rows}


def mean_and_error(values):
    if len(values) < 2:
        return statistics.fmean(values), math.nan
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def budgets_of(rows):
    """The lengths that every seed has of some plain setting: the others are partners of a hybrid run."""
    counts = {}
    for row in rows:
        if is_plain(row):
            counts.setdefault((setting(row), row["steps"]), set()).add(row["seed"])
    most = max((len(seeds) for seeds in counts.values()), default=0)
    cosine = {steps for (of, steps) in counts if of[0] == "cosine"}
    return sorted({steps for (_, steps), seeds in counts.items() if len(seeds) == most and (steps in cosine or not cosine)})


def frontier(rows, budgets, seeds, measure):
    """[(steps, least mean so far)] of the better of the plain schedules at each budget, falling."""
    points, least = [], math.inf
    for steps in budgets:
        means = []
        for of in {setting(row) for row in rows if is_plain(row)}:
            chosen = by_seed(row for row in rows if is_plain(row) and setting(row) == of and row["steps"] == steps)
            if all(seed in chosen for seed in seeds):
                means.append(statistics.fmean(chosen[seed][measure] for seed in seeds))
        if means and min(means) < least:
            least = min(means)
            points.append((steps, least))
    return points


def plain_cost(points, value):
    """Steps that plain training needs to come to `value`, between its budgets on logarithms of steps."""
    for (left, high), (right, low) in zip(points, points[1:]):
        if low <= value <= high:
            part = (high - value) / (high - low)
            return math.exp(math.log(left) * (1 - part) + math.log(right) * part)
    return None


def ratio(rows, chosen, budgets, seeds, measure):
    value = statistics.fmean(chosen[seed][measure] for seed in seeds)
    needed = plain_cost(frontier(rows, budgets, seeds, measure), value)
    return None if needed is None else needed / statistics.fmean(cost(chosen[seed]) for seed in seeds)


def ratio_text(rows, chosen, budgets, measure):
    """The ratio, and the middle 90 % of it when seeds are drawn anew, the same ones on both sides."""
    seeds = sorted(chosen)
    value = ratio(rows, chosen, budgets, seeds, measure)
    if value is None:
        points = frontier(rows, budgets, seeds, measure)
        mean = statistics.fmean(chosen[seed][measure] for seed in seeds)
        return "better than any plain run" if points and mean < points[-1][1] else "worse than any plain run"
    draw = random.Random(1)
    drawn = [ratio(rows, chosen, budgets, [draw.choice(seeds) for _ in seeds], measure) for _ in range(400)]
    known = sorted(one for one in drawn if one is not None)
    if len(known) < 0.9 * len(drawn):
        return f"{value:.2f}× (spread beyond the budgets)"
    return f"{value:.2f}× ({known[len(known) // 20]:.2f} to {known[-1 - len(known) // 20]:.2f})"


def difference_text(pairs, measure, digits):
    mean, error = mean_and_error([hybrid[measure] - plain[measure] for hybrid, plain in pairs])
    return f"{mean:+.{digits}f} ± {error:.{digits}f}"


def groups_of(rows, wanted):
    found = {}
    for row in rows:
        if wanted(row):
            found.setdefault((setting(row), row["steps"]), []).append(row)
    return sorted(found.items(), key=lambda item: (item[0][1], str(item[0][0])))


def task_section(task, rows, name, images):
    budgets = budgets_of(rows)
    is_regression = task == "regression"
    measures = ["loss"] if is_regression else ["loss", "error"]
    lines = [f"#### {task}", "", "| plain training | steps | seeds | loss, averaged | loss, last weights |" +
             ("" if is_regression else " error, averaged |"), "|---|---|---|---|---|" + ("" if is_regression else "---|")]
    for (of, steps), runs in groups_of(rows, lambda row: row["forecaster"] == "none" and not row.get("sampler") and
                                       (row["lookahead"] or row["steps"] in budgets)):
        title = f"{of[0]}, rate {of[1]:g}, β₂ {of[2]:g}" + (f", Lookahead {of[6]}" if of[6] else "")
        mean, error = mean_and_error([run["loss"] for run in runs])
        last, last_error = mean_and_error([run["last_loss"] for run in runs])
        line = f"| {title} | {steps} | {len(runs)} | {mean:.5f} ± {error:.5f} | {last:.5f} ± {last_error:.5f} |"
        if not is_regression:
            wrong, wrong_error = mean_and_error([100 * run["error"] for run in runs])
            line += f" {wrong:.2f} ± {wrong_error:.2f} % |"
        lines.append(line)
    lines += ["", "| forecaster (window, horizon) | steps, of them computed | jumps kept, rejected, taken back |"
              " loss against plain, same computed steps and seed | " +
              ("" if is_regression else "error against the same | ") + "cost to equal loss |" +
              ("" if is_regression else " cost to equal error |") + " forecasts' share of the time |",
              "|---|---|---|---|---|---|" + ("" if is_regression else "---|---|")]
    for (of, steps), runs in groups_of(rows, lambda row: row["forecaster"] != "none"):
        pairs = list(partners_of(rows, runs))
        chosen = by_seed(runs)
        counts = ", ".join(f"{statistics.fmean(run[what] for run in runs):.1f}"
                           for what in ("accepted", "rejected", "rolled_back"))
        line = (f"| {of[3]}{', dense' if of[7] else ''} ({of[4]}, {of[5]}) | {steps}, {statistics.fmean(run['computed'] for run in runs):.0f} | {counts} |"
                f" {difference_text(pairs, 'loss', 5) if pairs else 'no partners'} |")
        if not is_regression:
            mean, error = mean_and_error([100 * (a["error"] - b["error"]) for a, b in pairs]) if pairs else (math.nan,) * 2
            line += f" {mean:+.2f} ± {error:.2f} % |"
        for measure in measures:
            line += f" {ratio_text(rows, chosen, budgets, measure)} |"
        share = sum(run["predict_seconds"] for run in runs) / sum(run["seconds"] for run in runs)
        lines.append(line + f" {100 * share:.2f} % |")
    lines += samples_table(rows, budgets, measures)
    path = images / f"hybrid-{name}-{task}.svg"
    plot(task, rows, budgets, path)
    return lines + ["", f"![Held-out loss over cost, {task}](images/{path.name})", ""]


def partners_of(rows, runs):
    """(run, plain run of the same seed, rate and number of computed steps) of those that have one."""
    for run in runs:
        for row in rows:
            if (is_plain(row) and row["schedule"] == "wsd" and row["seed"] == run["seed"] and
                    row["steps"] == run["computed"] and row["learning_rate"] == run["learning_rate"]):
                yield run, row
                break


def samples_table(rows, budgets, measures):
    """Samples drawn by forecast beside shuffled epochs."""
    groups = groups_of(rows, lambda row: row.get("sampler"))
    if not groups:
        return []
    heads = ["samples drawn by forecast, rule", "steps", "seeds", *(f"{measure}, averaged" for measure in measures),
             *(f"{measure} against shuffled epochs, same steps and seed" for measure in measures),
             *(f"cost to equal {measure}" for measure in measures)]
    lines = ["", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for (of, steps), runs in groups:
        pairs = list(partners_of(rows, runs))
        cells = [of[8], str(steps), str(len(runs))]
        for measure in measures:
            scale, digits, unit = (100, 2, " %") if measure == "error" else (1, 5, "")
            mean, error = mean_and_error([scale * run[measure] for run in runs])
            cells.append(f"{mean:.{digits}f} ± {error:.{digits}f}{unit}")
        for measure in measures:
            scale, digits, unit = (100, 2, " %") if measure == "error" else (1, 5, "")
            mean, error = mean_and_error([scale * (a[measure] - b[measure]) for a, b in pairs]) if pairs else (math.nan,) * 2
            cells.append(f"{mean:+.{digits}f} ± {error:.{digits}f}{unit}")
        cells += [ratio_text(rows, by_seed(runs), budgets, measure) for measure in measures]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def plot(task, rows, budgets, path):
    figure, axes = plots.plt.subplots(figsize=(6, 3.6))
    for kind, colour in KINDS.items():
        if kind == "plain":
            of = [row for row in rows if is_plain(row) and row["schedule"] == "wsd" and row["steps"] in budgets]
        else:
            of = [row for row in rows if kind_of(row) == kind and not is_plain(row)]
        axes.scatter([cost(row) for row in of], [row["loss"] for row in of], s=8, color=colour, alpha=0.5, linewidths=0)
        means = sorted((statistics.fmean(cost(row) for row in of if row["steps"] == steps),
                        statistics.fmean(row["loss"] for row in of if row["steps"] == steps))
                       for steps in {row["steps"] for row in of})
        if means:
            axes.plot(*zip(*means), color=colour, marker="o", markersize=4, linewidth=1, label=kind)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(plots.matplotlib.ticker.FormatStrFormatter("%g"))
    axes.set_xlabel("cost in steps (computed ones, and forecasts' time)")
    axes.set_ylabel("held-out loss, averaged weights")
    axes.set_title(f"{task}: each run a dot, means joined", loc="left")
    axes.legend(frameon=False)
    plots.save(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path, help="named hybrid-NAME.jsonl")
    parser.add_argument("--page", type=Path, default=Path("docs/hybrid.md"))
    arguments = parser.parse_args()
    images = arguments.page.parent / "images"
    lines = []
    for file in arguments.results:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        kept = [row for row in rows if row["split"] == "test" and not row["diverged"]]
        name = file.stem.removeprefix("hybrid-")
        lines += [f"### {name}", "", f"{len(rows)} runs, {sum(row['diverged'] for row in rows)} of them diverged; "
                  f"`docs/results/{file.name}` has each.", ""]
        for task in sorted({row["task"] for row in kept}):
            lines += task_section(task, [row for row in kept if row["task"] == task], name, images)
    page = arguments.page.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    arguments.page.write_text(before + BEGIN + "\n\n" + "\n".join(lines).rstrip() + "\n\n" + END + rest.split(END)[1],
                              encoding="utf-8")


if __name__ == "__main__":
    main()

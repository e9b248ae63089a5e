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
         "direction, dense, forecast": "#3fb0c4", "direction, dense, forecast, residuals": "#2a7f62",
         "line": "#c8553d", "modes": "#5b8c5a", "last_move": "#8a5a9e", "samples by forecast": "#d9a441", "both": "#a03050"}


def cost(row):
    """Steps computed, and the time of the forecasts in steps of the same run: what a busy machine can't blur."""
    return row["computed"] * row["seconds"] / max(row["seconds"] - row["predict_seconds"], 1e-9)


def setting(row):
    return tuple(row[name] for name in ("schedule", "learning_rate", "beta2", "forecaster", "window", "horizon",
                                        "lookahead")) + (row.get("dense", False), row.get("sampler", ""),
                                                         row.get("length", "fixed"), row.get("residuals", 0))


def kind_of(row):
    if row.get("sampler") and row["forecaster"] != "none":
        return "both"
    if row.get("sampler"):
        return "samples by forecast" + (", unlimited" if row["sampler"].endswith("unlimited") else "")
    return (row["forecaster"] + (", dense" if row.get("dense") else "") +
            (", forecast" if row.get("length", "fixed") == "forecast" else "") +
            (", residuals" if row.get("residuals") else ""))


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


def seconds_alone(rows):
    """Mean time of the runs that nothing else ran beside; None where there is none."""
    times = [row["seconds"] for row in rows if row.get("alone")]
    return statistics.fmean(times) if times else None


def steps_of_plain(rows):
    return rows[0]["steps"]


def frontier(rows, budgets, seeds, measure, price=steps_of_plain):
    """[(price, least mean so far)] of the better of the plain schedules at each budget, falling."""
    points, least = [], math.inf
    for steps in budgets:
        found = []
        for of in {setting(row) for row in rows if is_plain(row)}:
            chosen = by_seed(row for row in rows if is_plain(row) and setting(row) == of and row["steps"] == steps)
            if chosen and all(seed in chosen for seed in seeds) and price(list(chosen.values())) is not None:
                mean = statistics.fmean(chosen[seed][measure] for seed in seeds)
                found.append((mean, price(list(chosen.values()))))
        if found and min(found)[0] < least:
            least, paid = min(found)
            points.append((paid, least))
    return points


def plain_cost(points, value):
    """What plain training pays to come to `value`, between its budgets on logarithms of prices."""
    for (left, high), (right, low) in zip(points, points[1:]):
        if low <= value <= high:
            part = (high - value) / (high - low)
            return math.exp(math.log(left) * (1 - part) + math.log(right) * part)
    return None


def mean_cost(runs):
    return statistics.fmean(cost(run) for run in runs)


STEPS, SECONDS = (steps_of_plain, mean_cost), (seconds_alone, seconds_alone)  # prices: of plain training, of the others


def ratio(rows, chosen, budgets, seeds, measure, prices):
    value = statistics.fmean(chosen[seed][measure] for seed in seeds)
    needed, paid = plain_cost(frontier(rows, budgets, seeds, measure, prices[0]), value), prices[1]
    # How long runs take differs by what else the machine does, not by seed: all that were alone count.
    of = chosen.values() if prices is SECONDS else [chosen[seed] for seed in seeds]
    return None if needed is None else needed / paid(of)


def ratio_text(rows, chosen, budgets, measure, prices=STEPS):
    """The ratio, and the middle 90 % of it when seeds are drawn anew, the same ones on both sides."""
    seeds = sorted(chosen)
    value = ratio(rows, chosen, budgets, seeds, measure, prices)
    if value is None:
        points = frontier(rows, budgets, seeds, measure, prices[0])
        mean = statistics.fmean(chosen[seed][measure] for seed in seeds)
        return "better than any plain run" if points and mean < points[-1][1] else "worse than any plain run"
    draw = random.Random(1)
    drawn = [ratio(rows, chosen, budgets, [draw.choice(seeds) for _ in seeds], measure, prices) for _ in range(400)]
    known = sorted(one for one in drawn if one is not None)
    if len(known) < 0.9 * len(drawn):
        return f"{value:.2f}× (spread beyond the budgets)"
    return f"{value:.2f}× ({known[len(known) // 20]:.2f} to {known[-1 - len(known) // 20]:.2f})"


def groups_of(rows, wanted):
    found = {}
    for row in rows:
        if wanted(row):
            found.setdefault((setting(row), row["steps"]), []).append(row)
    return sorted(found.items(), key=lambda item: (item[0][1], str(item[0][0])))


def task_section(task, noise, rows, name, images):
    budgets = budgets_of(rows)
    is_regression = task == "regression"
    measures = ["loss"] if is_regression else ["loss", "error"]
    title = task + (f", {100 * noise:g} % of the training labels wrong" if noise else "")
    lines = [f"#### {title}", "", "| plain training | steps | seeds | loss, averaged | loss, last weights |" +
             ("" if is_regression else " error, averaged |"), "|---|---|---|---|---|" + ("" if is_regression else "---|")]
    for (of, steps), runs in groups_of(rows, lambda row: row["forecaster"] == "none" and not row.get("sampler") and
                                       (row["lookahead"] or row["steps"] in budgets)):
        schedule = f"{of[0]}, rate {of[1]:g}, β₂ {of[2]:g}" + (f", Lookahead {of[6]}" if of[6] else "")
        mean, error = mean_and_error([run["loss"] for run in runs])
        last, last_error = mean_and_error([run["last_loss"] for run in runs])
        line = f"| {schedule} | {steps} | {len(runs)} | {mean:.5f} ± {error:.5f} | {last:.5f} ± {last_error:.5f} |"
        if not is_regression:
            wrong, wrong_error = mean_and_error([100 * run["error"] for run in runs])
            line += f" {wrong:.2f} ± {wrong_error:.2f} % |"
        lines.append(line)
    lines += jumps_table(rows, budgets, measures) + samples_table(rows, budgets, measures)
    lines += times_table(rows, budgets, measures) + cosine_table(rows, budgets, measures)
    path = images / f"hybrid-{name}-{task}{f'-noise-{noise:g}' if noise else ''}.svg"
    plot(title, rows, budgets, path)
    return lines + ["", f"![Held-out loss over cost, {title}](images/{path.name})", ""]


def jump_text(of):
    return (f"{of[3]}{', dense' if of[7] else ''}{', forecast' if of[9] == 'forecast' else ''}"
            f"{f', {of[10]} residuals' if of[10] else ''} ({of[4]}, {of[5]})")


def jumps_table(rows, budgets, measures):
    """Weights by forecast beside ordinary steps."""
    is_regression = "error" not in measures
    if not any(row["forecaster"] != "none" and not row.get("sampler") for row in rows):
        return []
    lines = ["", "| forecaster (window, horizon) | steps, of them computed | jumps kept, rejected, taken back |"
              " loss against plain, same computed steps and seed | " +
              ("" if is_regression else "error against the same | ") + "cost to equal loss |" +
              ("" if is_regression else " cost to equal error |") + " forecasts' share of the time |",
              "|---|---|---|---|---|---|" + ("" if is_regression else "---|---|")]
    for (of, steps), runs in groups_of(rows, lambda row: row["forecaster"] != "none" and not row.get("sampler")):
        pairs = list(partners_of(rows, runs))
        chosen = by_seed(runs)
        counts = ", ".join(f"{statistics.fmean(run[what] for run in runs):.1f}"
                           for what in ("accepted", "rejected", "rolled_back"))
        line = (f"| {jump_text(of)} | {steps}, {statistics.fmean(run['computed'] for run in runs):.0f} | {counts} |"
                f" {difference_cell(pairs, 'loss')} |")
        if not is_regression:
            line += f" {difference_cell(pairs, 'error')} |"
        for measure in measures:
            line += f" {ratio_text(rows, chosen, budgets, measure)} |"
        share = sum(run["predict_seconds"] for run in runs) / sum(run["seconds"] for run in runs)
        lines.append(line + f" {100 * share:.2f} % |")
    return lines


def difference_cell(pairs, measure):
    """Of a run's measure against its partner's; with one seed there's no spread."""
    if not pairs:
        return "no partners"
    scale, digits, unit = (100, 2, " %") if measure == "error" else (1, 5, "")
    mean, error = mean_and_error([scale * (a[measure] - b[measure]) for a, b in pairs])
    return f"{mean:+.{digits}f}" + ("" if math.isnan(error) else f" ± {error:.{digits}f}") + unit


def partners_of(rows, runs):
    """(run, plain run of the same seed, rate and number of computed steps) of those that have one."""
    for run in runs:
        for row in rows:
            if (is_plain(row) and row["schedule"] == "wsd" and row["seed"] == run["seed"] and
                    row["steps"] == run["computed"] and row["learning_rate"] == run["learning_rate"]):
                yield run, row
                break


def samples_table(rows, budgets, measures):
    """Samples drawn by forecast beside shuffled epochs; with weights by forecast too, where the rule says so."""
    groups = groups_of(rows, lambda row: row.get("sampler"))
    if not groups:
        return []
    heads = ["samples drawn by forecast, rule", "steps, of them computed", "seeds", *(f"{measure}, averaged" for measure in measures),
             *(f"{measure} against shuffled epochs, same computed steps and seed" for measure in measures),
             *(f"cost to equal {measure}" for measure in measures)]
    lines = ["", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for (of, steps), runs in groups:
        pairs = list(partners_of(rows, runs))
        cells = [sampler_text(of), f"{steps}, {statistics.fmean(run['computed'] for run in runs):.0f}", str(len(runs))]
        for measure in measures:
            scale, digits, unit = (100, 2, " %") if measure == "error" else (1, 5, "")
            mean, error = mean_and_error([scale * run[measure] for run in runs])
            cells.append(f"{mean:.{digits}f} ± {error:.{digits}f}{unit}")
        cells += [difference_cell(pairs, measure) for measure in measures]
        cells += [ratio_text(rows, by_seed(runs), budgets, measure) for measure in measures]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def sampler_text(of):
    return of[8] + (f", and {jump_text(of)}" if of[3] != "none" else "")


def what_text(of):
    what = sampler_text(of) if of[8] else jump_text(of) if of[3] != "none" else "plain, " + of[0]
    return what + (f", Lookahead {of[6]}" if of[6] else "")


def cosine_table(rows, budgets, measures):
    """The same ratios where only plain training with a cosine may pay: what the other plain schedule gains is in them."""
    cosine = [row for row in rows if not is_plain(row) or row["schedule"] == "cosine"]
    groups = [group for group in groups_of(rows, lambda row: not is_plain(row) or row["steps"] in budgets)
              if not (is_plain(group[1][0]) and group[0][0][0] == "cosine")]
    if not groups or not any(is_plain(row) for row in cosine):
        return []
    is_timed = any(seconds_alone(runs) is not None for _, runs in groups)
    heads = ["against plain training with a cosine alone", "steps", "computed", *(f"cost to equal {measure}" for measure in measures),
             *(f"wall time to equal {measure}" for measure in measures if is_timed)]
    lines = ["", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for (of, steps), runs in groups:
        cells = [what_text(of), str(steps), f"{statistics.fmean(run['computed'] for run in runs):.0f}"]
        cells += [ratio_text(cosine, by_seed(runs), budgets, measure) for measure in measures]
        if is_timed:
            alone = seconds_alone(runs) is not None
            cells += [ratio_text(cosine, by_seed(runs), budgets, measure, SECONDS) if alone else "" for measure in measures]
        lines.append("| " + " | ".join(cells).replace("any plain run", "any of them") + " |")
    return lines


def times_table(rows, budgets, measures):
    """Wall time of the runs that were alone on the device."""
    groups = [group for group in groups_of(rows, lambda row: row["steps"] in budgets)
              if seconds_alone(group[1]) is not None]
    if not groups:
        return []
    heads = ["alone on the device", "steps", "runs", "seconds", "µs a computed step",
             *(f"wall time to equal {measure}" for measure in measures)]
    lines = ["", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for (of, steps), runs in groups:
        alone = [run for run in runs if run.get("alone")]
        mean, error = mean_and_error([run["seconds"] for run in alone])
        each = 1e6 * mean / statistics.fmean(run["computed"] for run in alone)
        cells = [what_text(of), str(steps), str(len(alone)),
                 f"{mean:.3f}" + ("" if math.isnan(error) else f" ± {error:.3f}"), f"{each:.1f}"]
        plain = of[3] == "none" and not of[6] and not of[8]
        cells += ["" if plain else ratio_text(rows, by_seed(runs), budgets, measure, SECONDS) for measure in measures]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def sampling_table(notes):
    """What drawing by forecast adds to a step."""
    if not notes:
        return []
    heads = ["a batch of", "samples", "batch", "shuffled, µs", "drawn by forecast, µs", "forecasts updated, µs",
             "added to a step, µs"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for note in notes:
        times = [note["shuffled_us"], note["draw_us"], note["update_us"],
                 note["draw_us"] + note["update_us"] - note["shuffled_us"]]
        lines.append(f"| {note['sampling']} | {note['samples']} | {note['batch']} | " +
                     " | ".join(f"{time:.1f}" for time in times) + " |")
    return lines + [""]


def runs_of(rows):
    """Each run once: where it was made again alone on the device, that one."""
    found = {}
    for row in rows:
        if row.get("alone") or not found.get(row["key"], {}).get("alone"):
            found[row["key"]] = row
    return list(found.values())


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
        read = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
        rows = runs_of([row for row in read if "task" in row])
        kept = [row for row in rows if row["split"] == "test" and not row["diverged"]]
        name = file.stem.removeprefix("hybrid-")
        lines += [f"### {name}", "", f"{len(rows)} runs, {sum(row['diverged'] for row in rows)} of them diverged; "
                  f"`docs/results/{file.name}` has each.", ""]
        lines += sampling_table([row for row in read if "sampling" in row])
        for task, noise in sorted({(row["task"], row.get("label_noise", 0)) for row in kept}):
            of = [row for row in kept if (row["task"], row.get("label_noise", 0)) == (task, noise)]
            lines += task_section(task, noise, of, name, images)
    page = arguments.page.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    arguments.page.write_text(before + BEGIN + "\n\n" + "\n".join(lines).rstrip() + "\n\n" + END + rest.split(END)[1],
                              encoding="utf-8")


if __name__ == "__main__":
    main()

"""Files of random draws' measurements, what is computed from them, and their part of the report.

A file has one JSON object a line: a head {"format", "target", "seed", "device", "versions", "threads", "load", "cache_bytes",
"dates"}, then rows as results.py has them with "family", "index", "third", "size" (flops of products, else bytes). A file that
was gone on with has a head for each time; files of a target may be put one behind the other, where they have different families,
packed or not by xz.
"""
import datetime
import json
import lzma
import math
import os
import statistics

import reach
from results import WrongFile, is_ours, key, quickest, spread, without_host

FORMAT = 1


def parsed(path):
    """(heads, rows); a last line that a killed process left unfinished is none."""
    heads, rows = [], []
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
        try:
            lines = file.read().split("\n")
        except (lzma.LZMAError, EOFError) as error:
            raise WrongFile(f"{path} isn't whole: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                one = json.loads(line)
                if "target" in one:
                    heads.append(one)
                else:
                    rows.append({**one, "device": heads[-1]["device"]["description"]} if heads else one)
        except (json.JSONDecodeError, TypeError) as error:
            if number < len(lines):
                raise WrongFile(f"{path}, line {number} isn't JSON: {error}") from error
    if not heads or heads[0].get("format") != FORMAT:
        raise WrongFile(f"{path} isn't a file of measure_draws.py of format {FORMAT}: measure again")
    return heads, rows


def read(path):
    heads, rows = parsed(path)
    return {**heads[-1], "dates": in_turn(head["date"] for head in heads), "load": max(head["load"] for head in heads),
            "seed": " and ".join(in_turn(head["seed"] for head in heads)), "rows": rows,
            "versions": {name: " and ".join(in_turn(head["versions"][name] for head in heads if name in head["versions"]))
                         for name in in_turn(name for head in heads for name in head["versions"])}}


def file_of(folder, target):
    """As it is measured, or where none is, packed; None: neither is there."""
    paths = (os.path.join(folder, target + ending) for ending in (".jsonl", ".jsonl.xz"))
    return next(filter(os.path.exists, paths), None)


def in_turn(values):
    """Each once."""
    return list(dict.fromkeys(values))


class File:
    """Of one target, while it is measured."""

    def __init__(self, path, head=None):
        self.path, self.done = path, set()
        if os.path.exists(path):
            heads, rows = parsed(path)
            for what in ("seed", "device", "versions") if head else ():
                if without_host(heads[-1][what]) != without_host(head[what]):
                    raise WrongFile(f"--resume: {path} was measured with {what} {heads[-1][what]}, this is {head[what]}; move "
                                    "it away or measure without --resume")
            self.done = {(row["family"], row["index"]) for row in rows}
            self.end_line()
        if head:
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
            self.write({"format": FORMAT, **head, "date": now})

    def end_line(self):
        """Drops what a killed process left of a line."""
        with open(self.path, "rb+") as file:
            text = file.read()
            file.truncate(text.rfind(b"\n") + 1)

    def write(self, one):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(rounded(one)) + "\n")

    def add(self, row):
        self.write(row)
        self.done.add((row["family"], row["index"]))


def rounded(one):
    """With the digits that a measurement has."""
    if isinstance(one, dict):
        return {key: rounded(value) for key, value in one.items()}
    if isinstance(one, list):
        return [rounded(value) for value in one]
    return float(f"{one:.5g}") if isinstance(one, float) else one


# ---- ratios
def is_one_of(name, contenders):
    return not contenders or any(name == one or name.startswith(one + " ") for one in contenders)


def times_of(row, line):
    """(ours, theirs): {name: ms} of those that the line speaks of."""
    if line.target == "opencl":  # beside our CUDA kernels
        theirs = row.get("beside", {}).get("cuda", {}).get("ms", {})
        own = {name: ms for name, ms in theirs.items() if name.startswith("ashlar own")}
        return {name: ms for name, ms in row["ms"].items() if name in line.ours}, own or theirs
    return ({name: ms for name, ms in row["ms"].items() if name in line.ours},
            {name: ms for name, ms in row["ms"].items() if not is_ours(name) and is_one_of(name, line.against)})


def ratio(row, line):
    """The quickest rival's time over ours, or None where one of them wasn't measured."""
    if "ms" not in row:
        return None
    ours, theirs = map(quickest, times_of(row, line))
    return theirs[1] / ours[1] if ours and theirs else None


def statistics_of(ratios):
    """(geometric mean, tenth percentile, worst)"""
    tenth = statistics.quantiles(ratios, n=10, method="inclusive")[0] if len(ratios) > 1 else ratios[0]
    return math.exp(statistics.fmean(map(math.log, ratios))), tenth, min(ratios)


def rows_of(line, report):
    return [row for row in report["rows"] if row["family"] == line.family] if report else []


def ratios_of(line, report):
    """[(ratio, row)] of the draws that have one."""
    found = [(ratio(row, line), row) for row in rows_of(line, report)]
    return [item for item in found if item[0] is not None]


def verdict(line, report):
    """Reached is only what was measured in enough draws, all of them with right numbers and with both times."""
    rows, ratios = rows_of(line, report), [value for value, _ in ratios_of(line, report)]
    wrong = sum("wrong" in row for row in rows)
    parts = []
    if ratios:
        asked = zip(("geometric mean", "tenth percentile", "worst"), statistics_of(ratios),
                    (line.geometric_mean, line.tenth_percentile, line.worst))
        missed = [name for name, value, least in asked if least is not None and value < least]
        if missed:
            parts.append("missed: " + ", ".join(missed))
    if wrong:
        parts.append(f"no numbers: {wrong} of {len(rows)}")
    if len(rows) < reach.DRAWS:
        parts.append(f"not measured: {reach.DRAWS - len(rows)} of {reach.DRAWS}")
    elif len(ratios) + wrong < len(rows):
        parts.append(f"no rival: {len(rows) - len(ratios) - wrong} of {len(rows)}")
    return "; ".join(parts) or ("" if line.geometric_mean is None else "**reached**")


# ---- the report
def numbers(values):
    return " / ".join("–" if value is None else f"{value:.2f}" for value in values)


def table(header, lines):
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)] + ["| " + " | ".join(l) + " |" for l in lines]


def devices_of(report):
    return in_turn(row["device"] for row in report["rows"] if "device" in row) if report else []


def long_ones(line, report):
    """Of an OpenCL line's draws those that take our CUDA kernels long enough: their geometric mean and number."""
    ratios = [value for value, row in ratios_of(line, report)
              if quickest(times_of(row, line)[1])[1] >= reach.LONG_ENOUGH_FOR_OPENCL]
    return f"{statistics_of(ratios)[0]:.2f} ({len(ratios)})" if ratios else ""


def reach_header(target):
    long_enough = [f"of {1e3 * reach.LONG_ENOUGH_FOR_OPENCL:.0f} µs and more by CUDA"] if target == "opencl" else []
    return ("family", "against", "asked", "measured", *long_enough, "draws", "")


def reach_lines(target, report):
    for line in reach.ALL:
        if line.target != target:
            continue
        ratios = [value for value, _ in ratios_of(line, report)]
        long_enough = [long_ones(line, report)] if target == "opencl" else []
        where = in_turn(row["device"] for row in rows_of(line, report)) if len(devices_of(report)) > 1 else []
        yield (line.work, line.rivals, numbers((line.geometric_mean, line.tenth_percentile, line.worst)),
               numbers(statistics_of(ratios)) if ratios else "", *long_enough, ", ".join([str(len(ratios)), *where]),
               verdict(line, report))


def time_of(row, times, name):
    low, high = spread(row, name) if name in row["ms"] else (times[name], times[name])
    half = (high - low) / 2 / times[name]
    return f"{name} {1e3 * times[name]:.1f}" + (f" ±{half:.0%}" if half >= 0.01 else "")


def worst_lines(line, report, most=10):
    for value, row in sorted(ratios_of(line, report), key=lambda item: item[0])[:most]:
        ours, theirs = times_of(row, line)
        yield (f"{value:.2f}", f"{row['kernel']} {row['name']}", row["dtype"],
               time_of(row, ours, quickest(ours)[0]), time_of(row, theirs, quickest(theirs)[0]))


def section(target, title, report, plot):
    """Lines of Markdown of one target; `report` None where nothing was measured, `plot` the picture's place."""
    lines = [f"### {title}", ""]
    if report:
        device = report["device"]
        versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
        compiled = sum(any(name.startswith("torch compiled") for name in row.get("ms", {})) for row in report["rows"])
        where = " and ".join(devices_of(report)) or device["description"]
        lines += [f"{where}; driver: {device['driver']}; host: {device['cpu']}, {report['threads']} threads. "
                  f"{versions}. Seed {report['seed']}, {', '.join(report['dates'])}, load of the host at most "
                  f"{report['load']:.1f}. {len(report['rows'])} draws, {compiled} of them beside a compiled program.", ""]
    lines += table(reach_header(target), reach_lines(target, report))
    wrong = [row for row in report["rows"] if "wrong" in row] if report else []
    if wrong:
        lines += ["", "Without times:", ""]
        lines += [f"- {row['family']} {row['index']}: {key(row)}: {row['wrong']}" for row in wrong]
    if plot:
        lines += ["", f"![ratio over size, {title}]({plot})"]
    for line in reach.ALL:
        if line.target == target and ratios_of(line, report):
            lines += ["", f"The ten worst, {line.work}, against {line.rivals}; µs:", ""]
            lines += table(("ratio", "call", "dtype", "ours", "rival"), worst_lines(line, report))
    return lines

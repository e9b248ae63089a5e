"""Device memory of training steps, as measure_memory.py wrote it to memory.json, and the report's table of it:

    {"format": 1, "target", "device", "versions", "date", "calls", "rows": [{"kernel", "name", "dtype",
     "ashlar": {"live", "held"}, "torch": {way: {"live", "held"}}, "not": {way: why it wasn't measured}}, …]}

in bytes. A row with "wrong" says why there is nothing of ours.
"""
import json
import os

from results import WrongFile, key

FILE = "memory.json"
MOST = 1.1  # times PyTorch's
HEAD = """## Device memory of training steps

The most that a training step takes beside its batch: "live" is what tensors have in use at once, "held" what the
allocator has taken from the driver for that, with size classes and free blocks. PyTorch's are max_memory_allocated and
max_memory_reserved of the same step, eager, with a fused Adam, as a CUDA graph and compiled, in the same process one after
the other; a ratio is ours over the least of them. Both give back what they keep free after the first step. Neither counts
the driver's context, code and graphs. Asked: at most {most:g} × PyTorch's, both ratios. MB are 10^6 bytes."""


def is_memory(path):
    return os.path.basename(path) == FILE


def read(path):
    with open(path, encoding="utf-8") as file:
        try:
            report = json.load(file)
        except json.JSONDecodeError as error:
            raise WrongFile(f"{path} isn't JSON: {error}") from error
    if not isinstance(report, dict) or not {"target", "device", "rows", "calls"} <= report.keys():
        raise WrongFile(f"{path} isn't a file of measure_memory.py; measure again")
    return report


def ratio(row, what):
    """Ours over the least of PyTorch's, or None where it has none."""
    theirs = [way[what] for way in row.get("torch", {}).values()]
    return row["ashlar"][what] / min(theirs) if theirs and min(theirs) > 0 else None


def megabytes(count):
    return f"{count / 1e6:.1f}"


def verdict(row):
    ratios = [ratio(row, what) for what in ("live", "held")]
    if None in ratios:
        return "not measured"
    return "**reached**" if max(ratios) <= MOST else "missed"


def line(row):
    if "wrong" in row:
        return [key(row), "", "", "", "", "", "", row["wrong"]]
    theirs = row.get("torch", {})
    cells = [key(row)]
    for what in ("live", "held"):
        value = ratio(row, what)
        ways = ", ".join(f"{way} {megabytes(of[what])}" for way, of in theirs.items())
        cells += [megabytes(row["ashlar"][what]), ways, f"{value:.2f}" if value else ""]
    return cells + [verdict(row)]


def section(report):
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    heads = ["training step", "live, MB", "PyTorch's", "ratio", "held, MB", "PyTorch's", "ratio", ""]
    lines = [*HEAD.format(most=MOST).splitlines(), "", f"{report['device']['description']}, {report['device']['driver']}. "
             f"Versions: {versions}. {report['date']}, {report['calls']} steps.", ""]
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(line(row)) + " |" for row in report["rows"]]
    missing = {f"{key(row)}, {way}: {why}" for row in report["rows"] for way, why in row.get("not", {}).items()}
    return lines + (["", "Not measured:", "", *(f"- {one}" for one in sorted(missing))] if missing else [])

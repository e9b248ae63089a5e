"""Sentences beside the report's tables. Their numbers come from the measurements:

    {cuda:matmul/nt_2048x2048x2048/f32:ratio}      time of the quickest rival over ours
    {cuda:matmul/nt_*/f32:ratio torch eager}       of that rival; rows that a pattern matches give "0.86 to 0.88"
    {cpu:mlp_step/batch_64/f32:ms}                 ours; with a rival's name, that rival's; "us" for microseconds
    {cuda:copy/64M/f32:share}                      bytes per second over the copy's; also GB/s, GFLOP/s, host_us
    {opencl:matmul/tt_*/f32:beside cuda}           our time there, in the same rounds, over ours
    {cpu::version OpenBLAS}                        of the run: version NAME, copy (GB/s), device, threads, cache (MB)

One that names nothing measured fails the report. Numbers of experiments outside the tables may stand as they are where
the paragraph or table row says when and on what they were made: "(2026-11-21, 5280797)".
"""
import fnmatch
import re

import results

PLACEHOLDER = re.compile(r"\{(\w+):([^{}:]*):([^{}:]+)\}")
STAMP = re.compile(r"\d{4}-\d\d-\d\d, [0-9a-f]{7}")
FIGURE = re.compile(r"\d+\.\d+|\d+ (?:%|ms|µs|s|GB/s|[GT]FLOP/s)(?![\w/])")


class WrongNote(Exception):
    pass


def read(path):
    """{target: Markdown} of the sections "## cuda" and so on."""
    if not path:
        return {}
    with open(path, encoding="utf-8") as file:
        parts = re.split(r"^## (\w+)\n", file.read(), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], (text.strip() for text in parts[2::2])))
    for target, text in sections.items():
        for block in re.split(r"\n\n|\n(?=\|)", text):
            bare = re.sub(r"`[^`]*`", "", PLACEHOLDER.sub("", block))
            written = FIGURE.search(STAMP.sub("", bare))
            if written and not STAMP.search(block):
                raise WrongNote(f"notes on {target}: \"{written.group()}\" is written by hand in \"{block[:80]}…\": take it "
                                "from the measurements ({target:kernel/name/dtype:ratio}) or say when and on what it was "
                                "measured, as (2026-11-21, 5280797)")
    return sections


def of_row(row, report, what):
    word, _, name = what.partition(" ")
    if word == "ratio":
        return results.ratio(row, name)
    if word in ("ms", "us"):
        found = results.quickest(results.rivals_of(row, name)) if name else results.ours(row)
        return found and found[1] * (1e3 if word == "us" else 1)
    if word == "beside":
        return results.beside_ratio(row, name)
    per_second = 1e3 / results.ours(row)[1] / 1e9
    return {"share": results.share(row, report["bandwidth"]), "GB/s": row["bytes"] * per_second,
            "GFLOP/s": row["flops"] * per_second or None, "host_us": row.get("host_us")}.get(what)


def of_run(report, what):
    word, _, name = what.partition(" ")
    return {"version": report["versions"].get(name), "copy": f"{report['bandwidth'] / 1e9:.0f} GB/s",
            "device": report["device"]["description"], "threads": str(report["threads"]),
            "cache": f"{report['cache_bytes'] / 2**20:.0f} MB" if report.get("cache_bytes") else None}.get(word)


def written(value, what):
    if what in ("GB/s", "GFLOP/s") or value >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if what.partition(" ")[0] in ("ms", "us", "host_us") else f"{value:.2f}"


def filled(text, reports):
    """`text` with every placeholder replaced by its numbers. `reports`: by target."""
    def number(found):
        target, pattern, what = found.groups()
        report = reports.get(target)
        value = None
        if report and not pattern:
            value = of_run(report, what)
        elif report:
            values = [of_row(row, report, what) for row in report["rows"]
                      if "ms" in row and fnmatch.fnmatchcase(results.key(row), pattern)]
            values = [v for v in values if v is not None]
            ends = [written(v, what) for v in (min(values), max(values))] if values else []
            value = " to ".join(dict.fromkeys(ends)) or None
        if value is None:
            raise WrongNote(f"notes: {found.group()} names nothing measured; benchmarks/notes.py says what it can name")
        return value
    return PLACEHOLDER.sub(number, text)

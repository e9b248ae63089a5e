"""Whether a figure (figures.py) is reached by what was measured."""
import results

TARGETS = ("cpu", "cuda", "opencl")


def value_of(row, of, bandwidth):
    """What a Reach speaks of, or None where it wasn't measured."""
    if "ms" not in row:
        return None
    if of == "bandwidth":
        return results.share(row, bandwidth)
    if of == "us":
        return results.ours(row)[1] * 1e3
    if of == "host_us":
        return row.get("host_us")
    if of in TARGETS:
        return results.beside_ratio(row, of)
    return results.ratio(row, "" if of == "quickest" else of)


def asked(reach):
    if reach.of in ("us", "host_us"):
        return f"≤ {reach.value:g} µs"
    return f"≥ {reach.value:g} × {'the quickest rival' if reach.of == 'quickest' else reach.of}"


def verdict(reach, report):
    """(worst value, where, what became of it). Only when every benchmark of the figure was measured, with right numbers,
    can it be reached."""
    at_most = reach.of in ("us", "host_us")
    rows = {results.key(row): row for row in report["rows"] if reach.matches(results.key(row))}
    expected = report.get("expected")
    keys = set(rows) | {key for key in expected or () if reach.matches(key)}
    values = [(value_of(row, reach.of, report["bandwidth"]), key) for key, row in rows.items()]
    values = [item for item in values if item[0] is not None]
    wrong = [key for key, row in rows.items() if "wrong" in row]
    missing = len(keys) - len(values) - len(wrong)
    good = sum(value <= reach.value if at_most else value >= reach.value for value, _ in values)
    parts = []
    if good < len(values):
        parts.append(f"missed: {good} of {len(values)} reach it")
    if wrong:
        parts.append(f"wrong numbers: {len(wrong)} of {len(keys)}")
    if not keys or missing:
        parts.append(f"not measured: {missing} of {len(keys)}" if keys else "not measured")
    elif expected is None:
        parts.append("not known whether all were measured")
    worst, where = (max if at_most else min)(values) if values else (None, "")
    return "" if worst is None else f"{worst:.2f}", where, "; ".join(parts) or "**reached**"

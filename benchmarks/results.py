"""Files of measurements and what is read from them. measure.py writes one for each target:

    {"format": 2, "target", "device", "versions", "dates", "load", "threads", "cache_bytes", "bandwidths", "bandwidth",
     "seconds", "expected": [key, …], "rows": [{"kernel", "name", "dtype", "shapes", "flops", "bytes", "sets", "error",
     "ms": {"ashlar": …, "ashlar graph": …, rival: …}, "spread": {the same names: [p10, p90]},
     "beside": {target: {"ms", "spread"}}, "not": {rival: why it wasn't timed}, "host_us", "host_us_spread"}, …]}

"expected" are all benchmarks that the target's figures speak of, whether they were measured or not. Times are medians
over rounds in milliseconds, of one operation. A row with "wrong" instead of "ms" says why there are no times.
"""
import datetime
import json
import os

FORMAT = 2


def key(row):
    return f"{row['kernel']}/{row['name']}/{row['dtype']}"


def is_ours(name):
    return name == "ashlar" or name.startswith("ashlar ")


def quickest(times):
    """(name, ms), or None of nothing."""
    return min(times.items(), key=lambda item: item[1]) if times else None


def ours(row):
    """(name, ms) of our quicker way: called, or replayed in a graph where the row has that."""
    return quickest({name: ms for name, ms in row["ms"].items() if is_ours(name)})


def rivals_of(row, beginning=""):
    return {name: ms for name, ms in row["ms"].items() if not is_ours(name) and name.startswith(beginning)}


def ratio(row, beginning=""):
    """Time of the quickest rival (whose name begins so) over ours, or None."""
    best = quickest(rivals_of(row, beginning)) if "ms" in row else None
    return best[1] / ours(row)[1] if best else None


def share(row, bandwidth):
    """Bytes per second over the copy's."""
    return row["bytes"] / (ours(row)[1] / 1e3) / bandwidth


def beside_ratio(row, target):
    """Our time on the other target, measured in the same rounds, over ours; or None."""
    other = row.get("beside", {}).get(target) if "ms" in row else None
    return min(other["ms"].values()) / ours(row)[1] if other else None


def spread(row, name):
    """[p10, p90] over the rounds; the median alone where a file is older than spreads."""
    return row.get("spread", {}).get(name) or [row["ms"][name]] * 2


class WrongFile(Exception):
    pass


def read(path):
    with open(path, encoding="utf-8") as file:
        try:
            report = json.load(file)
        except json.JSONDecodeError as error:
            raise WrongFile(f"{path} isn't JSON: {error}") from error
    if not isinstance(report, dict) or not {"target", "rows", "bandwidth"} <= report.keys():
        raise WrongFile(f"{path} isn't a file of measure.py: target, rows and bandwidth are needed; measure again")
    return report


def without_host(device):
    """The device's own part of a description."""
    return {k: v for k, v in device.items() if not k.startswith("cpu")} if isinstance(device, dict) else device


class Session:
    """The file of one target while it is measured: written after each row, so that what a stopped run has isn't lost."""

    def __init__(self, folder, head, resume):
        self.path = os.path.join(folder, head["target"] + ".json")
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        self.report = {"format": FORMAT, **head, "dates": [now], "bandwidths": [], "bandwidth": None, "seconds": 0,
                       "rows": []}
        if resume and os.path.exists(self.path):
            before = read(self.path)
            for what in ("format", "device", "versions"):
                if without_host(before.get(what)) != without_host(self.report[what]):
                    raise WrongFile(f"--resume: {self.path} was measured with {what} {before.get(what)}, this is "
                                    f"{self.report[what]}; move it away or measure without --resume")
            if head["device"].get("cpu") not in before["device"].get("cpu", "").split(" and "):
                before["device"]["cpu"] += f" and {head['device']['cpu']}"  # machines lent by the minute differ in it
            for what in ("device", "bandwidths", "seconds"):
                self.report[what] = before[what]
            self.report["dates"] = before["dates"] + [now]
            self.report["load"] = max(before["load"], head["load"])
            self.report["rows"] = [row for row in before["rows"] if "ms" in row]
        self.done = {key(row) for row in self.report["rows"]}
        self.seconds_before = self.report["seconds"]

    def add_bandwidth(self, bandwidth):
        self.report["bandwidths"].append(bandwidth)
        self.report["bandwidth"] = max(self.report["bandwidths"])

    def add(self, row, seconds):
        self.report["rows"].append(row)
        self.done.add(key(row))
        self.write(seconds)

    def missing(self):
        return [k for k in self.report["expected"] if k not in self.done]

    def write(self, seconds):
        self.report["seconds"] = round(self.seconds_before + seconds)
        with open(self.path + ".part", "w", encoding="utf-8") as file:
            json.dump(self.report, file, indent=1)
        os.replace(self.path + ".part", self.path)

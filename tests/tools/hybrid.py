#!/usr/bin/env python3
"""ashlar-train --hybrid killed and resumed, and ashlar-hybrid compare that goes on where it was:
hybrid.py ASHLAR_TRAIN ASHLAR_HYBRID WORK."""
import json
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

train, hybrid, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
shutil.rmtree(work, ignore_errors=True)
data = work / "data"
data.mkdir(parents=True)

numbers = random.Random(1)
for name, count in (("train", 2400), ("t10k", 300)):  # bright above, bright below
    labels = bytes(numbers.randrange(2) for _ in range(count))
    pixels = b"".join(bytes(numbers.randrange(100) + (150 if row // 8 == label else 0) for row in range(16))
                      for label in labels)
    (data / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)
    (data / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 4, 4) + pixels)


def command(*arguments):
    return [train, "mlp", "--data", str(data), "--hidden", "8", "--batch", "16", "--epochs", "4", "--hybrid",
            *map(str, arguments)]


def finish(arguments):
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, (arguments, run.stdout, run.stderr)
    return run.stdout


out = finish(command("--checkpoint", work / "first", "--save", work / "weights", "--metrics", work / "metrics.csv"))
assert "warm-up is over" in out and "steps predicted" in out, out
assert len((work / "metrics.csv").read_text().splitlines()) == 5
phases = (work / "metrics.phases.csv").read_text().splitlines()
assert phases[0].startswith("step,phase,") and any(",predict," in row for row in phases), phases
plot = (work / "metrics.phases.svg").read_text()
assert plot.startswith("<svg") and ">predict</text>" in plot and ">seconds by jumps</text>" in plot, plot[:400]
assert float(out.split()[-1]) > 0.95, out

# Killed as soon as it has said something of its second half; then the rest of it.
with subprocess.Popen(command("--checkpoint", work / "second"), stdout=subprocess.PIPE, text=True) as process:
    for line in process.stdout:
        if "steps predicted" in line:
            break
    process.kill()
resumed = finish(command("--checkpoint", work / "second", "--save", work / "resumed"))
assert "epoch 1  " not in resumed, resumed
assert (work / "resumed").read_bytes() == (work / "weights").read_bytes()

refused = subprocess.run(command("--checkpoint", work / "second", "--batch", "32"), capture_output=True, text=True)
assert refused.returncode != 0 and "batch" in refused.stderr, refused

# A comparison that is out of time at once, and one that goes on from a file whose last line was cut off.
results = work / "results.jsonl"


def compare(*arguments):
    return [hybrid, "compare", "--data", str(data), "--mnist", str(data), "--seeds", "1", "--tuning-seeds", "1", "--quick",
            "--results", str(results), *arguments]


def runs():
    rows = [json.loads(line) for line in results.read_text().splitlines() if line.endswith("}")]
    return [row for row in rows if "task" in row]  # not the cost of sampling


known = []
small = compare("--task", "fashion", "--budgets", "1", "--shortest", "300")
while len(known) < 2:  # each call makes a run at least, but the first, which measures the cost of sampling
    first = subprocess.run([*small, "--limit", "0.2"], capture_output=True, text=True, timeout=100)
    assert first.returncode == 4 and "call again" in first.stdout, first
    known = runs()
assert all(row["computed"] > 0 for row in known), known
results.write_text(results.read_text()[:-20])
finish(small)
rows = runs()
assert rows[0] == known[0], "a run that was there was made again"
kinds = {(row["length"], row["residuals"]) for row in rows if row["split"] == "test" and row["dense"]}
assert kinds == {("fixed", 0), ("forecast", 0), ("forecast", 16)}, kinds
assert {row["forecaster"] for row in rows} == {"none", "direction", "line", "modes", "nowcast", "last_move"}, rows
assert {row["sampler"] for row in rows if row["split"] == "validation"} == {"", "last", "age", "average", "ensemble"}, rows
assert any(row["sampler"].endswith("unlimited") for row in rows), rows
both = [row for row in rows if row["sampler"] and row["forecaster"] != "none"]
assert {row["dense"] for row in both} == {True, False}, both
assert len({row["key"] for row in rows}) == len(rows), rows
for row in rows:  # the same settings and seed on both sides
    if row["forecaster"] != "none" and row["split"] == "test":
        assert row["computed"] < row["steps"] or row["rolled_back"] > 0 or row["held_back"] > 0, row
        assert row["held_back"] == 0 or row["length"] == "forecast", row
        assert any(other["forecaster"] == "none" and not other["sampler"] and other["steps"] == row["computed"]
                   for other in rows), row
lines = results.read_text().splitlines()
assert finish(small).count("key") == 0 and results.read_text().splitlines() == lines
assert sum("draw_us" in line for line in lines) == 1, lines

# Wrong labels, several runs at a time; then the measured ones again for their time.
noisy = compare("--task", "mnist-cnn", "--label-noise", "0.2", "--kinds", "plain,samples", "--budgets", "2", "--shortest",
                "40", "--rates", "0.004")
finish([*noisy, "--jobs", "2"])
rows = [row for row in runs() if row["task"] == "mnist-cnn"]
assert all(row["label_noise"] == 0.2 and "noise 0.2" in row["key"] and not row["alone"] for row in rows), rows
assert {row["forecaster"] for row in rows} == {"none"} and {row["steps"] for row in rows} == {40, 80}, rows
finish([*noisy, "--alone"])
again = [row for row in runs() if row["task"] == "mnist-cnn"][len(rows):]
tests = {row["key"]: row["loss"] for row in rows if row["split"] == "test"}
assert {row["key"]: row["loss"] for row in again} == tests and all(row["alone"] for row in again), again

refused = subprocess.run(compare("--task", "regression", "--label-noise", "0.2"), capture_output=True, text=True)
assert refused.returncode == 1 and "--label-noise" in refused.stderr, refused

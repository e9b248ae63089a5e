#!/usr/bin/env python3
"""Tunes a kernel with a wrong setting from bundle to table: tune_here.py ASHLAR_TUNE BUILD WORK."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

tune, build, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)


def run(*command, cwd=None):
    finished = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, timeout=250)
    print(finished.stdout, finished.stderr)
    assert finished.returncode == 0, finished.returncode
    return finished.stdout


bundle = work / "bundle"
said = run(tune, "bundle", "twice", "--target", "cpu", "--shapes", "4096,1000000", "--build", build, "--out", bundle)
assert "6 settings, of which 0" in said and "2 left out: hopeless ways aren't tried" in said, said
# The bundle is moved: nothing in it may point to where it was made.
moved = work / "elsewhere"
bundle.rename(moved)
run(moved / "ashlar-tune", "run", "--timeout", "60", cwd=moved)
results = [json.loads(line) for line in (moved / "results.jsonl").read_text().splitlines()[1:]]
by_way = {}
for result in results:
    by_way.setdefault(result["tunables"].get("way", "slow"), set()).add(result["status"])
assert "wrong" in by_way["wrong"] and not by_way["wrong"] & {"timed", "slow", "final"}, by_way
assert "final" in by_way["plain"], by_way

run(tune, "apply", moved / "results.jsonl", "--tuned", work / "tuned", "--plot", work / "space.svg")
tables = list((work / "tuned").glob("cpu*/*.json"))
assert len(tables) == 1, tables
points = json.loads(tables[0].read_text())["kernels"]["twice"]["f32"]
assert [point["sizes"] for point in points] == [[4096], [1000000]], points
assert points[1]["tunables"]["way"] == "plain" and points[1]["of_default"] < 0.9, points
assert "<svg" in (work / "space.svg").read_text()

# All three in one, into the same table: what is there stays, what is measured is replaced.
def tune_here(shapes):
    run(tune, "twice", "--folder", work / "here", "--target", "cpu", "--shapes", shapes, "--build", build,
        "--tuned", work / "tuned")
    return [point["sizes"] for point in json.loads(tables[0].read_text())["kernels"]["twice"]["f32"]]


assert tune_here("1000000") == [[4096], [1000000]]

# Again, with nothing left to do; then with other sizes, which make the bundle anew and keep the results.
made = (work / "here/bundle.json").stat().st_mtime_ns
assert tune_here("1000000") == [[4096], [1000000]]
assert (work / "here/bundle.json").stat().st_mtime_ns == made
assert tune_here("1000000,2000000") == [[4096], [1000000], [2000000]]

said = run(tune, "explain", "twice", "--target", "cpu", "--build", build, "--shape", "1000000")
assert "way = slow" in said and "produce" in said and "operations a byte" in said, said

# "cpu" is the widest code that this machine runs and the instance has: f16 has none for AVX-512.
said = run(tune, "explain", "exp", "--instance", "f16", "--target", "cpu", "--build", build)
assert "exp f16 on cpu" in said and "on cpu_avx512" not in said, said
said = run(tune, "bundle", "exp", "--instances", "f32,f16", "--target", "cpu", "--shapes", "1000", "--most", "1",
           "--build", build, "--out", work / "both")
assert "exp f32: 1 settings" in said and "exp f16: 1 settings" in said, said

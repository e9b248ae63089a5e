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


def refused(*command, says):
    finished = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=250)
    assert finished.returncode == 1 and says in finished.stderr, (command, finished)
    assert "compiled" not in finished.stderr, finished.stderr


bundle = work / "bundle"
for kernel, shapes, says in (("twice", "4096,64x64", "1 size: elements"), ("gained", "4096", "2 sizes: axis 0 x axis 1"),
                             ("matmul", "64x64", "4 sizes: batch x m x n x k")):
    refused(tune, kernel, "--target", "cpu", "--shapes", shapes, "--build", build, "--folder", bundle, says=says)
refused(tune, "bundle", "twice", "--instances", "f32,f31", "--target", "cpu", "--shapes", "64", "--build", build, "--out",
        bundle, says="--instances f31")
said = run(tune, "bundle", "twice", "--target", "cpu", "--shapes", "4096,1000000", "--build", build, "--out", bundle)
assert "8 settings, of which 0" in said and "2 left out: hopeless ways aren't tried" in said, said
# The bundle is moved: nothing in it may point to where it was made.
moved = work / "elsewhere"
bundle.rename(moved)
run(moved / "ashlar-tune", "run", "--timeout", "60", cwd=moved)
results = [json.loads(line) for line in (moved / "results.jsonl").read_text().splitlines()[1:]]
by_way = {}
for result in results:
    by_way.setdefault(result["tunables"].get("way", "slow"), set()).add(result["status"])
# Close enough to the CPU's own code, but not to the double reference: found before it can be chosen.
assert {"timed", "wrong"} <= by_way["subtle"] and "final" not in by_way["subtle"], by_way
judged = [result for result in results if result["tunables"].get("way") == "subtle" and result["status"] == "wrong"]
assert all(result["sizes"] == [] and "allowed" in result["message"] for result in judged), judged
assert "judged" in by_way["plain"] & by_way["slow"], by_way
assert "wrong" in by_way["wrong"] and not by_way["wrong"] & {"timed", "slow", "final"}, by_way
assert "final" in by_way["plain"], by_way

run(tune, "apply", moved / "results.jsonl", "--tuned", work / "tuned", "--plot", work / "space.svg")
tables = list((work / "tuned").glob("cpu*/*.json"))
assert len(tables) == 1, tables
points = json.loads(tables[0].read_text())["kernels"]["twice"]["f32"]
assert [point["sizes"] for point in points] == [[4096], [1000000]], points
assert points[1]["tunables"]["way"] == "plain" and points[1]["of_default"] < 0.9, points
assert "<svg" in (work / "space.svg").read_text()

# Nothing was timed: an error, and no table.
(work / "none.jsonl").write_text((moved / "results.jsonl").read_text().splitlines()[0] + "\n")
refused(tune, "apply", work / "none.jsonl", "--tuned", work / "empty", says="nothing was timed beside its default")
assert not (work / "empty").exists()

# Form::plain is timed at the shapes of its tensors; a table knows the elements.
run(tune, "gained", "--folder", work / "plain", "--target", "cpu", "--shapes", "300x1000", "--build", build,
    "--tuned", work / "tuned_plain")
plain = [json.loads(line) for line in (work / "plain/results.jsonl").read_text().splitlines()[1:]]
assert {tuple(one["sizes"]) for one in plain if one["status"] == "timed"} == {(300, 1000)}, plain
table = json.loads(next((work / "tuned_plain").glob("cpu*/*.json")).read_text())
assert [point["sizes"] for point in table["kernels"]["gained"]["f32"]] == [[300000]], table

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

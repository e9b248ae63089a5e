#!/usr/bin/env python3
"""Measures plans of operators and makes a table of them: tune_plans.py ASHLAR_TUNE_PLANS ASHLAR_TUNE WORK."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

tune_plans, tune, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)


def view(*shape):
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    elements = strides[0] * shape[0]
    return {"dtype": "f32", "elements": elements, "shape": shape, "strides": strides, "offset": 0}


def run(*command, code=0):
    finished = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=250)
    print(finished.stdout, finished.stderr)
    assert finished.returncode == code, finished.returncode
    return finished.stdout + finished.stderr


calls = [{"operator": "conv2d", "options": {"padding": [1, 1]}, "inputs": [view(2, 8, 14, 14), view(16, 8, 3, 3)]},
         {"operator": "gru", "options": {}, "wanted": [0, 1],
          "inputs": [view(5, 4, 8), view(4, 16), view(48, 8), view(48, 16), view(48), view(48), view(5, 4, 16)]},
         {"operator": "relu", "options": {}, "inputs": [view(64)]}]  # has one way
(work / "calls.jsonl").write_text("".join(json.dumps(call) + "\n" for call in calls))
results = work / "results.jsonl"
said = run(tune_plans, work / "calls.jsonl", "--results", results, "--rounds", 3)
assert "conv2d images 2, groups 1, rows 16, channels 8, places 196, taps 9, stride 1" in said, said
found = [json.loads(line) for line in results.read_text().splitlines()[1:]]
assert {"conv2d", "gru_sequence", "gru_sequence_grad"} == {one["kernel"] for one in found}, found
assert all(one["status"] == "final" and one["instance"] == "any" for one in found), found
plans = {one["tunables"].get("plan", "") for one in found if one["kernel"] == "conv2d"}
assert plans == {"", "unfolded", "gathered"}, plans

# What is there isn't measured again.
run(tune_plans, work / "calls.jsonl", "--results", results)
assert len(results.read_text().splitlines()) == len(found) + 1

# A point names a plan where it saves something, and a call of the size that the table knows gets it.
lines = results.read_text().splitlines()
for i, line in enumerate(lines):
    one = json.loads(line)
    if one.get("tunables") == {"plan": "unfolded"}:
        lines[i] = json.dumps({**one, "of_default": 0.5})
results.write_text("\n".join(lines) + "\n")
run(tune, "apply", results, "--tuned", work / "tuned")
table, = (work / "tuned").glob("cpu*/*.json")
point, = json.loads(table.read_text())["kernels"]["conv2d"]["any"]
assert point["sizes"] == [2, 1, 16, 8, 196, 9, 1] and point["tunables"] == {"plan": "unfolded"}, point

said = run(tune, "judge", results, "--tuned", work / "tuned")
assert "conv2d: of 1 calls the table decides 1, the operator's own choice takes 2.00 / 2.00 / 2.00" in said, said
assert "gru_sequence: of 1 calls the table decides" in said, said

(work / "broken.jsonl").write_text("{\n")
assert "broken.jsonl, line 1" in run(tune_plans, work / "broken.jsonl", "--results", results, code=2)
(work / "wrong.jsonl").write_text(json.dumps({**calls[0], "operator": "conv3d2"}) + "\n")
assert "line 1" in run(tune_plans, work / "wrong.jsonl", "--results", results, code=1)

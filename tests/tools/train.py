#!/usr/bin/env python3
"""ashlar-train with arguments that it must refuse, a training that diverges, and places that can't be written, on a
small data set made here: train.py ASHLAR_TRAIN WORK."""
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

train, work = sys.argv[1], Path(sys.argv[2])
shutil.rmtree(work, ignore_errors=True)
data = work / "data"
data.mkdir(parents=True)

# Images of 4 × 4 pixels in two classes: bright above, bright below.
numbers = random.Random(1)
for name, count in (("train", 600), ("t10k", 100)):
    labels = bytes(numbers.randrange(2) for _ in range(count))
    pixels = b"".join(bytes(numbers.randrange(100) + (150 if row // 8 == label else 0) for row in range(16))
                      for label in labels)
    (data / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)
    (data / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 4, 4) + pixels)


def command(*arguments):
    return [train, "mlp", "--data", str(data), "--hidden", "8", *map(str, arguments)]


def run(*arguments, before=None):
    finished = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=100, preexec_fn=before)
    return finished.returncode, finished.stdout, finished.stderr


def refused(*arguments, says):
    """Refused at once, in a few words, before the data is read."""
    code, out, err = run(*arguments)
    assert code not in (0, 3), (arguments, code, out)
    assert all(word in out + err for word in says), (arguments, out, err)
    assert "epoch" not in out and len(err) < 400, (out, err)


for number in ("nan", "inf", "-1", "0", "1e-400", "much"):
    refused("--lr", number, says=["--lr", number, "finite number above 0"])
for number in ("-1", "1.5", "18446744073709551616", "first"):
    refused("--seed", number, says=["--seed", number, "whole number"])
refused("--epochs", "0", says=["--epochs", "0"])
refused("--save", work / "missing/file", says=["--save", "missing/file", "No such file"])
refused("--save", data, says=["--save", "Is a directory"])
for file in (work / "missing/file", data, "/dev/full"):
    refused("--metrics", file, says=[str(file), "can't be written"])
assert not [file for file in work.iterdir() if file != data], "what was tried left something"

code, out, err = run("--epochs", 2, "--seed", 2**64 - 1, "--save", work / "weights", "--metrics", work / "metrics.csv")
assert code == 0 and out.splitlines()[-1].startswith("test accuracy ") and not err, (code, out, err)
assert len((work / "metrics.csv").read_text().splitlines()) == 3

# A diverged training says so and saves nothing.
code, out, err = run("--optimizer", "sgd", "--lr", "1e30", "--epochs", 2, "--save", work / "diverged")
assert code == 1 and "diverge" in err and "smaller --lr" in err and "epoch 1 of 2" in err, (code, out, err)
assert not (work / "diverged").exists()


def train_until_moved(*arguments, temporary):
    """Takes the folder for the weights away after the first epoch: the output of so many fills the pipe, which waits."""
    place = work / "place"
    place.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(command("--epochs", 1000, "--save", place / "weights", *arguments), env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if "accuracy" in line:
                break
        place.rename(work / "moved")
        out, err = process.communicate(timeout=100)
    shutil.rmtree(work / "moved")
    return process.returncode, out[-200:], err


def tensors_of(file):
    whole = file.read_bytes()
    return set(json.loads(whole[8:8 + struct.unpack("<Q", whole[:8])[0]])) - {"__metadata__"}


# Weights that can't be saved where they should be are saved elsewhere, and the message says where.
second = work / "second"
second.mkdir()
code, out, err = train_until_moved(temporary=second)
saved = list(second.glob("*.safetensors"))
assert code == 1 and len(saved) == 1 and f"the weights are in {saved[0]}" in err, (code, out, err, saved)
assert out.splitlines()[-1].startswith("test accuracy "), out
assert tensors_of(saved[0]) == tensors_of(work / "weights"), tensors_of(saved[0])

code, out, err = train_until_moved(temporary=work / "nowhere")
assert code == 1 and "lost" in err and "TMPDIR" in err, (code, out, err)


# Metrics that the disk takes no more of don't end the training.
def as_if_full():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))


code, out, err = run("--epochs", 4, "--metrics", work / "full.csv", before=as_if_full)
assert code == 1 and "full.csv" in err and "goes on without it" in err, (code, out, err)
assert out.splitlines()[-1].startswith("test accuracy "), out

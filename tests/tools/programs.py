#!/usr/bin/env python3
"""Each program of ashlar-train with a short budget: its last line must show that it learnt, and a training that was killed
and goes on must end with the bits of one that wasn't: programs.py ASHLAR_TRAIN WORK [DEVICE]."""
import gzip
import random
import re
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

train, work, device = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3] if len(sys.argv) > 3 else "cpu"
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
FASHION = Path("/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist
numbers = random.Random(1)


def make_images(folder, counts):
    """The first of Fashion-MNIST's, or ten places of a bright patch where that isn't installed."""
    folder.mkdir()
    for name, count in counts.items():
        if FASHION.is_dir():
            labels = gzip.open(FASHION / f"{name}-labels-idx1-ubyte.gz").read()[8:8 + count]
            pixels = gzip.open(FASHION / f"{name}-images-idx3-ubyte.gz").read()[16:16 + 784 * count]
        else:
            labels = bytes(numbers.randrange(10) for _ in range(count))
            pixels = b"".join(bytes(numbers.randrange(60) + (180 if (row // 6, column // 14) == divmod(label, 2) else 0)
                                    for row in range(28) for column in range(28)) for label in labels)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + pixels)
    return folder


def command(program, *arguments):
    return [train, program, "--device", device, *map(str, arguments)]


def run(program, *arguments):
    """What it prints."""
    finished = subprocess.run(command(program, *arguments), capture_output=True, text=True, timeout=300, cwd=work)
    assert finished.returncode == 0 and not finished.stderr, (program, finished.returncode, finished.stderr)
    return finished.stdout


def figure(output, line):
    """The number in the last line."""
    said = re.fullmatch(line.replace("NUMBER", r"(-?\d+\.\d{4})"), output.rstrip("\n").rsplit("\n", 1)[-1])
    assert said, output[-400:]
    return float(said.group(1))


def resumes(program, *arguments, epochs):
    """Killed in the second epoch, or in the only one, and called again, it saves the same weights."""
    straight, second, state = work / f"{program}.straight", work / f"{program}.resumed", work / f"{program}.state"
    state.unlink(missing_ok=True)
    second.unlink(missing_ok=True)
    run(program, *arguments, "--save", straight)
    again = [*arguments, "--save", second, "--resume", state]
    with subprocess.Popen(command(program, *again), stdout=subprocess.PIPE, text=True, cwd=work) as process:
        while epochs == 1 and not state.exists() and process.poll() is None:
            time.sleep(0.002)
        while epochs > 1 and not (line := process.stdout.readline()).startswith("epoch 2/"):
            assert line, f"{program} ended before its second epoch"
        process.kill()
    assert state.exists() and not second.exists(), program
    output = run(program, *again)
    assert f"epoch {epochs}/{epochs}" in output and (epochs == 1 or "epoch 1/" not in output), output
    assert straight.read_bytes() == second.read_bytes(), f"{program} resumed ends with other weights"


def is_png(file, width, height):
    start = file.read_bytes()[:24]
    return start[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", start[16:24]) == (width, height)


images = make_images(work / "images", {"train": 3000, "t10k": 500})
few = make_images(work / "few", {"train": 640, "t10k": 200})
words = ["the", "cat", "dog", "saw", "ate", "small", "big", "house"]
text = work / "text"
text.write_text("".join(numbers.choice(words) + numbers.choice(" \n") for _ in range(8000)))
chance = 3.0  # ln 20 or so nats, knowing nothing; the words' own entropy is about (ln 8 + ln 2) / 4.5 = 0.6

output = run("xor")
assert figure(output, "accuracy NUMBER") == 1, output
output = run("cnn", "--data", images, "--epochs", 3, "--batch", 50)
assert figure(output, "test accuracy NUMBER") >= 0.75, output
output = run("vae", "--data", images, "--epochs", 3, "--sheet", "vae.png", "--metrics", "vae.csv")
assert figure(output, "test ELBO NUMBER nats") > -330, output  # about -550 untrained
assert is_png(work / "vae.png", 302, 302) and len((work / "vae.csv").read_text().splitlines()) == 4
output = run("dcgan", "--data", few, "--epochs", 3, "--batch", 32, "--channels", 8, "--lr", 0.001, "--metrics", "gan.csv")
first = float(re.search(r"at first: distance (\S+)", output).group(1))
assert figure(output, "distance NUMBER") < 0.6 * first, output
assert is_png(work / "dcgan.png", 302, 302) and len((work / "gan.csv").read_text().splitlines()) == 4
small = ["--data", text, "--steps", 120, "--evaluate-every", 60, "--context", 32, "--width", 48, "--lr", 0.01]
for program in ("char-gru", "char-transformer"):
    output = run(program, *small, "--layers", 1, "--generate", 50, "--prompt", "the cat")
    assert figure(output, "held-out loss NUMBER nats per character") < 1.2, output
    written = output.split("---- generated at temperature 0.8\n")[1].split("\n----\n")[0]
    assert written.startswith("the cat") and len(written) == 57, written
output = run("char-gru", *small, "--layers", 1, "--generate", 300, "--prompt", "the cat", "--top-k", 2, "--top-p", 0.9)
written = output.split("---- generated at temperature 0.8\n")[1].split("\n----\n")[0]
assert len(written) == 307 and set(written.split()[:-1]) <= set(words), written

# With --detect-anomaly they learn the same; one that diverges names an operation, and without says how to find it.
assert figure(run("xor", "--detect-anomaly"), "accuracy NUMBER") == 1
for arguments in ((), ("--detect-anomaly",)):
    diverged = subprocess.run(command("xor", "--lr", "1e38", *arguments), capture_output=True, text=True, timeout=100, cwd=work)
    assert diverged.returncode == 1 and "finite numbers" in diverged.stderr, (arguments, diverged)
    for word in ("ashlar-train: fit: ", "detect_anomaly"):
        assert (word in diverged.stderr) == (not arguments), (arguments, diverged)

# In 16 bits they learn the same.
assert figure(run("xor", "--amp", "f16"), "accuracy NUMBER") == 1
assert figure(run("cnn", "--data", images, "--epochs", 3, "--batch", 50, "--amp", "bf16"), "test accuracy NUMBER") >= 0.75
output = run("vae", "--data", images, "--epochs", 3, "--sheet", "vae.png", "--amp", "f16")
assert figure(output, "test ELBO NUMBER nats") > -330, output
for steps in ((), ("--hybrid",)):
    output = run("mlp", "--data", images, "--epochs", 4, "--batch", 50, "--amp", "f16", *steps)
    assert figure(output, "test accuracy NUMBER") >= 0.7, output
output = run("dcgan", "--data", few, "--epochs", 3, "--batch", 32, "--channels", 8, "--lr", 0.001, "--amp", "f16")
assert figure(output, "distance NUMBER") < 0.6 * first, output
for program, amp in (("char-gru", "f16"), ("char-transformer", "bf16")):
    output = run(program, *small, "--layers", 1, "--generate", 0, "--amp", amp)
    assert figure(output, "held-out loss NUMBER nats per character") < 1.2, output

if device == "cpu":
    resumes("mlp", "--data", few, "--epochs", 12, "--hidden", 256, epochs=12)
    resumes("vae", "--data", few, "--epochs", 12, "--hidden", 256, epochs=12)
    resumes("dcgan", "--data", few, "--epochs", 12, "--batch", 64, "--channels", 2, epochs=12)
    # Within an epoch, where the state of the units counts.
    resumes("char-gru", "--data", text, "--steps", 1400, "--evaluate-every", 1400, "--width", 16, "--context", 8, "--batch",
            8, "--generate", 0, epochs=1)
    for arguments, says in ((["char-gru"], ["--data", "karpathy/char-rnn"]),
                            (["char-gru", "--data", text, "--prompt", "Q"], ["Q"]),
                            (["char-transformer", "--data", text, "--heads", 5], ["--heads", "multiple"]),
                            (["char-transformer", "--data", text, "--context", 60000], ["--context", "shorter|smaller"]),
                            (["cnn", "--data", few, "--channels", "2,2,2,2,2"], ["--channels"]),
                            (["vae", "--data", few, "--sheet", "missing/sheet.png"], ["--sheet", "missing"])):
        refused = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=100, cwd=work)
        assert refused.returncode == 1, (arguments, refused)
        assert all(re.search(word, refused.stderr) for word in says), (arguments, refused.stderr)

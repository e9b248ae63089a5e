#!/usr/bin/python3
"""What PyTorch's modules compute, for tests/nn/test_against_torch.cpp: weights, inputs, outputs and gradients.

modules.py --write             makes modules.safetensors.gz beside this file, which the test reads
modules.py --add               adds the cases that the file lacks, and leaves the others as they are
modules.py --check [PROGRAM]   compares the file with what the PyTorch at hand computes, and, with the test program,
                               loads the weights that our modules save by load_state_dict(strict=True), and compares
                               outputs. Exits with 77 where there is no PyTorch.

PyTorch is Debian's (apt-packages.txt, group bench) or any other. It computes in f64 from f32 values; results are rounded
once. A case's random numbers are seeded by its name, so cases come and go without changing others.
"""
import argparse
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    from cases import CASES, owner_of
except ImportError:
    print("modules.py: no PyTorch here (apt install python3-torch); nothing was checked")
    sys.exit(77)

FILE = Path(__file__).with_name("modules.safetensors.gz")
TOLERANCE, SMALL = 1e-5, 0.1  # of the largest element, or of this
NAMES = {"float32": "F32", "int64": "I64", "bool": "BOOL"}


def write_safetensors(path, tensors):
    header, blobs, at = {}, [], 0
    for name, array in tensors.items():
        blob = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": NAMES[str(array.dtype)], "shape": list(array.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(gzip.compress(struct.pack("<Q", len(text)) + text + b"".join(blobs), mtime=0))


def read_safetensors(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    start = 8 + struct.unpack("<Q", data[:8])[0]
    dtypes = {code: np.dtype(name) for name, code in NAMES.items()}
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            flat = np.frombuffer(data[start + first : start + last], dtypes[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


# ---- what a case comes to --------------------------------------------------------------------------------------------


def results_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value if part is not None for tensor in results_of(part)]


def as_array(tensor):
    tensor = tensor.detach()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def weights_like(y):
    """Of the elements in the sum that is differentiated; no size of a case is a multiple of their number."""
    weights = torch.tensor([0.5, 0.25, -0.25, -0.5, 1, -0.75, 0.125, 0.75, -1, 0.375, -0.125], dtype=torch.float64)
    return weights[torch.arange(y.numel()) % len(weights)].reshape(y.shape)


def computed(name):
    module, inputs = CASES[name]()
    state = {key: as_array(value).copy() for key, value in owner_of(module).state_dict().items()}
    module.double()
    inputs = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]
    outputs = results_of(module(*inputs))
    sum((y * weights_like(y)).sum() for y in outputs if y.requires_grad).backward()
    tensors = {}

    def put(kind, key, value):
        tensors[f"{name}/{kind}/{key}"] = value if isinstance(value, np.ndarray) else as_array(value)

    for key, value in state.items():
        put("state", key, value)
    for key, value in owner_of(module).named_buffers():
        put("after", key, value)
    for i, x in enumerate(inputs):
        put("input", i, x)
        if x.is_floating_point():
            put("dinput", i, x.grad if x.grad is not None else torch.zeros_like(x))
    for i, y in enumerate(outputs):
        put("output", i, y)
    for key, value in owner_of(module).named_parameters():
        put("grad", key, value.grad)
    return tensors


def all_computed(kept):
    """Of every case; not again of those in `kept`."""
    tensors = {}
    for name in CASES:
        own = {key: value for key, value in kept.items() if key.startswith(f"{name}/")}
        tensors.update(own or computed(name))
    return tensors


def differs(got, wanted):
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{list(got.shape)}, not {wanted.dtype}{list(wanted.shape)}"
    if got.dtype != np.float32:
        return "" if (got == wanted).all() else "other values"
    if got.size == 0:
        return ""
    largest = max(float(np.abs(wanted).max()), SMALL)
    distance = float(np.abs(got.astype(np.float64) - wanted).max()) / largest
    return "" if distance <= TOLERANCE else f"relative distance {distance:.2g}"


def check_file():
    """The committed file holds what this PyTorch computes."""
    mistakes, now, kept = [], all_computed({}), read_safetensors(FILE)
    for name in sorted(now.keys() ^ kept.keys()):
        mistakes.append(f"{name}: only in {'the cases' if name in now else 'the file'}")
    for name in sorted(now.keys() & kept.keys()):
        what = differs(kept[name], now[name])
        if what:
            mistakes.append(f"{name}: {what}")
    return mistakes


def check_program(program):
    """Weights that our modules made and saved, loaded into PyTorch's, give the outputs that ours gave."""
    mistakes = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ours.safetensors"
        subprocess.run(
            [program, "--gtest_filter=AgainstTorch.WeightsGoBack", "--gtest_brief=1"],
            env={**os.environ, "ASHLAR_SAVE_WEIGHTS": str(path)},
            check=True,
        )
        ours = read_safetensors(path)
    for name, build in CASES.items():
        module, inputs = build()
        prefix = f"{name}/state/"
        state = {key[len(prefix) :]: torch.from_numpy(value.copy()) for key, value in ours.items() if key.startswith(prefix)}
        try:
            owner_of(module).load_state_dict(state, strict=True)
        except RuntimeError as error:
            mistakes.append(f"{name}: {error}")
            continue
        module.double()
        outputs = results_of(module(*[x.double() if x.is_floating_point() else x for x in inputs]))
        for i, y in enumerate(outputs):
            got = ours.get(f"{name}/output/{i}")
            what = "no output" if got is None else differs(got, as_array(y))
            if what:
                mistakes.append(f"{name}/output/{i}: {what}")
    return mistakes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make modules.safetensors.gz")
    parser.add_argument("--add", action="store_true", help="add the cases that modules.safetensors.gz lacks")
    parser.add_argument("--check", action="store_true", help="compare modules.safetensors.gz")
    parser.add_argument("program", nargs="?", help="test_nn, whose weights PyTorch loads")
    options = parser.parse_args()
    if options.write or options.add:
        write_safetensors(FILE, all_computed(read_safetensors(FILE) if options.add else {}))
        print(f"{FILE}: {len(CASES)} cases, {FILE.stat().st_size} bytes")
    mistakes = check_file() if options.check else []
    if options.program:
        mistakes += check_program(options.program)
    for mistake in mistakes:
        print(mistake)
    if (options.check or options.program) and not mistakes:
        print(f"{len(CASES)} cases agree with PyTorch {torch.__version__}")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())

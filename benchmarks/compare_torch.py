#!/usr/bin/env python3
"""Times PyTorch on the cases that ashlar-bench measures, in the same run, and prints the ratios.

    compare_torch.py BENCH [--device cuda] [--kernels softmax,matmul] [--dtypes f32]

BENCH is the ashlar-bench program. Needs PyTorch. fp32 is strict: no TF32. Above 1 Ashlar is faster.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
UNARY = {"neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
         "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "gelu": F.gelu, "silu": F.silu}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
          "minimum": torch.minimum, "equal": torch.eq}
REDUCTIONS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "argmax": torch.argmax}


def torch_call(case, inputs):
    """The same operation in PyTorch as a function without arguments, or None where there's no counterpart."""
    kernel, name = case["kernel"], case["name"]
    if kernel in UNARY:
        return lambda: UNARY[kernel](*inputs)
    if kernel in BINARY:
        return lambda: BINARY[kernel](*inputs)
    if kernel in REDUCTIONS:
        if name.startswith("all"):
            return lambda: REDUCTIONS[kernel](*inputs)
        axis = 1 if name.startswith("rows") else 0
        return lambda: REDUCTIONS[kernel](*inputs, dim=axis)
    if kernel in ("softmax", "log_softmax"):
        return lambda: getattr(torch, kernel)(*inputs, dim=-1)
    if kernel == "cross_entropy":
        labels = torch.randint(0, inputs[0].shape[1], (inputs[0].shape[0],), device=inputs[0].device)
        return lambda: F.cross_entropy(inputs[0], labels, reduction="none")
    if kernel == "matmul":
        if name.startswith("linear"):
            return lambda: torch.relu(F.linear(*inputs))
        return lambda: torch.matmul(*inputs)
    if kernel == "copy":
        if name.startswith("permute"):
            return lambda: inputs[0].t().contiguous()
        return lambda: inputs[0].clone()
    if kernel == "fill":
        return lambda: torch.full_like(inputs[0], 1.5)
    if kernel == "cast":
        return lambda: inputs[0].to(torch.float16)
    return None


def seconds_per_call(call, synchronize, seconds):
    """The median over batches, as ashlar-bench takes it."""
    def batch(calls):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        synchronize()
        return time.perf_counter() - start

    batch(3)
    calls = 1
    while batch(calls) < seconds / 15:
        calls *= 2
    times = []
    start = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < seconds:
        times.append(batch(calls) / calls)
    return sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--kernels", default="")
    parser.add_argument("--dtypes", default="f32")
    parser.add_argument("--seconds", type=float, default=0.3)
    options = parser.parse_args()

    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.device(options.device)
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bench.json")
        command = [options.bench, "--device", options.device, "--dtypes", options.dtypes, "--json", path,
                   "--seconds", str(options.seconds)]
        if options.kernels:
            command += ["--kernels", options.kernels]
        subprocess.run(command, check=True)
        with open(path, encoding="utf-8") as file:
            cases = json.load(file)

    print(f"\nPyTorch {torch.__version__}\n{'kernel':15} {'case':26} {'dtype':5} {'ashlar ms':>11} {'torch ms':>11} ratio")
    for case in cases:
        dtype = DTYPES.get(case["dtype"])
        if dtype is None:
            continue
        inputs = [torch.rand(shape, device=device).mul_(3).add_(0.1).to(dtype) for shape in case["shapes"]]
        call = torch_call(case, inputs)
        if call is None:
            continue
        theirs = seconds_per_call(call, synchronize, options.seconds) * 1e3
        ours = case["milliseconds"]
        print(f"{case['kernel']:15} {case['name']:26} {case['dtype']:5} {ours:11.4f} {theirs:11.4f} {theirs / ours:5.2f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Attention within packed sequences (varlen_attn, f32) beside PyTorch on a GPU, in one process: random lengths, heads and widths,
forward and forward with backward, numbers checked against double precision. PyTorch's quickest of: sequences padded to the longest
with a mask (padding included or done already), a call for each sequence.

    benchmarks/measure_ragged.py build/lib/libashlar.so [--seed N] [--count N] [--limit SECONDS]
"""
import argparse
import math
import pathlib
import random
import sys
import time

import torch
import torch.nn.functional as F

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "from_python"))
from ashlar import Ashlar  # noqa: E402
from distribution import numbers, statistics_of  # noqa: E402
from drawing import log_uniform  # noqa: E402

LEAST_FLOPS, MOST_FLOPS = 1e10, 1e12  # calls from Python cost tens of microseconds, which are not to count
TOLERANCE = 2e-5


class Packed:
    """Sequences one after the other: rows of all of them, [rows, heads, width]."""

    def __init__(self, rng):
        while True:
            longest = log_uniform(rng, 32, 4096)
            self.lengths = [log_uniform(rng, max(1, longest // 8), longest) for _ in range(log_uniform(rng, 2, 64))]
            self.heads, self.width, self.causal = log_uniform(rng, 1, 16), log_uniform(rng, 16, 128), rng.random() < 0.5
            pairs = sum(n * n for n in self.lengths) * (0.5 if self.causal else 1)
            if LEAST_FLOPS <= 4 * pairs * self.heads * self.width <= MOST_FLOPS:
                break
        self.total = sum(self.lengths)
        self.operands = [torch.randn(self.total, self.heads, self.width, device="cuda") for _ in range(4)]
        self.offsets = torch.tensor([0, *torch.tensor(self.lengths).cumsum(0).tolist()], device="cuda")
        place = torch.arange(max(self.lengths), device="cuda")
        self.is_there = place[None, :] < torch.tensor(self.lengths, device="cuda")[:, None]
        self.mask = self.is_there[:, None, None, :]
        if self.causal:
            self.mask = self.mask & (place[None, :] <= place[:, None])

    def name(self):
        return (f"{'causal' if self.causal else 'full'}, {len(self.lengths)} of {min(self.lengths)} to {max(self.lengths)}, "
                f"{self.heads} heads of {self.width}")

    def padded(self, x):
        """[sequences, heads, longest, width]"""
        y = x.new_zeros(*self.is_there.shape, self.heads, self.width)
        y[self.is_there] = x
        return y.transpose(1, 2)

    def packed(self, y):
        return y.transpose(1, 2)[self.is_there]

    def of_padded(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)

    def one_by_one(self, q, k, v):
        """[rows, heads, width] from the same."""
        parts = [torch.split(x, self.lengths) for x in (q, k, v)]
        return torch.cat([F.scaled_dot_product_attention(*(x.transpose(0, 1)[None] for x in one), is_causal=self.causal)[0]
                          .transpose(0, 1) for one in zip(*parts)])


def milliseconds(call, least=0.05):
    """The quickest of five times of as many calls as take `least` seconds."""
    call()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    count = max(1, min(100, math.ceil(least / (time.perf_counter() - start))))
    times = []
    for _ in range(5):
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / count)
    return min(times)


def with_gradients(function, operands, dy):
    operands = [x.detach().requires_grad_() for x in operands]

    def call():
        return torch.autograd.grad(function(*operands), operands, dy)
    return call


def measured(ashlar, packed):
    """{"forward": {who: milliseconds}, "with backward": …}, numbers checked."""
    *operands, dy = packed.operands
    arguments = (*operands, packed.offsets, packed.offsets)
    options = {"max_q": max(packed.lengths), "max_k": max(packed.lengths), "is_causal": packed.causal}
    double = with_gradients(packed.one_by_one, [x.double() for x in operands], dy.double())
    exact = [packed.one_by_one(*(x.double() for x in operands)), *double()]

    def gradients():
        return ashlar.gradients("varlen_attn", arguments, [dy, None], **options)[:3]
    for x, want in zip([ashlar.call("varlen_attn", *arguments, **options)[0], *gradients()], exact):
        error = ((torch.from_dlpack(x) - want).abs().max() / want.abs().max()).item()
        if not error < TOLERANCE:
            sys.exit(f"{packed.name()}: off by {error:.1e} of the largest number")
    del exact, double
    ready, dy_padded = [packed.padded(x).contiguous() for x in operands], packed.padded(dy)

    def padding(q, k, v):
        return packed.packed(packed.of_padded(*(packed.padded(x) for x in (q, k, v))))
    with torch.no_grad():
        forward = {"ashlar": lambda: ashlar.call("varlen_attn", *arguments, **options),
                   "padded before": lambda: packed.of_padded(*ready), "padding": lambda: padding(*operands),
                   "one by one": lambda: packed.one_by_one(*operands)}
        result = {"forward": {who: milliseconds(call) for who, call in forward.items()}}
    backward = {"ashlar": gradients, "padded before": with_gradients(packed.of_padded, ready, dy_padded),
                "padding": with_gradients(padding, operands, dy), "one by one": with_gradients(packed.one_by_one, operands, dy)}
    result["with backward"] = {who: milliseconds(call) for who, call in backward.items()}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds")
    given = parser.parse_args()
    rng, begin, ratios = random.Random(given.seed), time.monotonic(), {}
    torch.manual_seed(given.seed)
    ashlar = Ashlar(given.library)
    ashlar.use_torch_stream(torch)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, seed {given.seed}", flush=True)
    for _ in range(given.count):
        if time.monotonic() - begin > given.limit:
            break
        packed = Packed(rng)
        for what, times in measured(ashlar, packed).items():
            ours, rivals = times.pop("ashlar"), times
            ratios.setdefault(what, []).append(min(rivals.values()) / ours)
            shown = ", ".join(f"{who} {value:.3f}" for who, value in rivals.items())
            print(f"{what} {packed.name()}: {ours:.3f} ms ({shown}): {ratios[what][-1]:.2f}", flush=True)
    for what, all_of in ratios.items():
        print(f"{what}: {numbers(statistics_of(all_of))} of {len(all_of)} draws")


if __name__ == "__main__":
    main()

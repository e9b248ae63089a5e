#!/usr/bin/env python3
"""The calls that networks make of convolutions, attention and recurrent layers, forward and backward, one line of JSON each: what
ashlar-tune-plans is given to fill the tables in schedules/tuned (docs/how-to/tune-a-kernel.md).

    network_calls.py [--device cpu|opencl|cuda] [--near SEED] > calls.jsonl

The shortest come first, so that a limit of time leaves out the longest. With --near each size is drawn again from those that a
table takes for one with it: calls to judge a table by that it wasn't made from.

Layers of ResNet-18 and -50 (He et al. 2016), VGG-16 (Simonyan and Zisserman 2015), MobileNetV2's depthwise ones (Sandler et al.
2018); attention of BERT, GPT-2, ViT-B and of heads of 128; and what ashlar-train's programs call.
"""
import argparse
import json
import math
import random

from draw_networks import called
from drawing import View

# channels, side, channels of the result, taps, stride
RESNET_STEM = [(3, 224, 64, 7, 2)]
RESNET_18 = [(64, 56, 64, 3, 1), (64, 56, 128, 3, 2), (64, 56, 128, 1, 2), (128, 28, 128, 3, 1), (128, 28, 256, 3, 2),
             (128, 28, 256, 1, 2), (256, 14, 256, 3, 1), (256, 14, 512, 3, 2), (256, 14, 512, 1, 2), (512, 7, 512, 3, 1)]
RESNET_50 = [(64, 56, 64, 1, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1), (256, 56, 128, 1, 1), (128, 56, 128, 3, 2),
             (256, 56, 512, 1, 2), (128, 28, 512, 1, 1), (512, 28, 128, 1, 1), (512, 28, 256, 1, 1), (256, 28, 256, 3, 2),
             (512, 28, 1024, 1, 2), (256, 14, 1024, 1, 1), (1024, 14, 256, 1, 1), (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2),
             (1024, 14, 2048, 1, 2), (512, 7, 2048, 1, 1), (2048, 7, 512, 1, 1)]
VGG_16 = [(3, 224, 64, 3, 1), (64, 224, 64, 3, 1), (64, 112, 128, 3, 1), (128, 112, 128, 3, 1), (128, 56, 256, 3, 1),
          (256, 56, 256, 3, 1), (256, 28, 512, 3, 1), (512, 28, 512, 3, 1), (512, 14, 512, 3, 1)]
LENET = [(1, 28, 16, 3, 1), (16, 14, 32, 3, 1)]  # `ashlar-train cnn`
DCGAN = [(1, 28, 32, 4, 2), (32, 14, 64, 4, 2)]
DEPTHWISE = [(32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (192, 28, 1), (192, 28, 2), (384, 14, 1), (576, 14, 2),
          (960, 7, 1)]
# heads, queries, keys, width, causal
ATTENTION = {"BERT": (12, 128, 128, 64, False), "BERT, long": (12, 512, 512, 64, False), "GPT-2": (12, 1024, 1024, 64, True),
             "ViT": (12, 197, 197, 64, False), "wide heads": (32, 2048, 2048, 128, True),
             "char-transformer": (6, 256, 256, 64, True), "its default": (4, 64, 64, 32, True), "cross": (8, 64, 512, 64, False)}
# steps, batch, inputs, hidden
RECURRENT = [(10, 32, 64, 256), (64, 32, 128, 128), (128, 64, 256, 256), (35, 20, 200, 200), (100, 64, 256, 512),
             (50, 16, 512, 1024), (20, 1, 64, 64), (128, 1, 256, 256), (28, 128, 28, 128)]
BATCHES = {"cpu": (1, 8), "opencl": (1, 32), "cuda": (1, 32)}
BATCHES_OF_PROGRAMS = {"cpu": (64,), "opencl": (64, 512), "cuda": (64, 512)}


def half_octave(size):
    """What tables know of a size: half_octaves() in runtime/launch/kernel.h."""
    return round(2 * math.log2(size))


class Near:
    """Sizes of the same half octave, drawn; without a seed the sizes themselves."""
    def __init__(self, seed):
        self.rng = random.Random(seed) if seed else None

    def drawn(self, size, known=lambda size: size):
        """One that is known as `size` is."""
        if self.rng is None:
            return size
        return self.rng.choice([one for one in range(1, 2 * size) if half_octave(known(one)) == half_octave(known(size))])

    def layer(self, channels, side, outputs, taps, stride):
        """Known by the places of its outputs."""
        places = lambda side: output_side(side, taps, stride) ** 2 if side + 2 * padding_of(taps) >= taps else 0.1
        return self.drawn(channels), self.drawn(side, places), self.drawn(outputs), taps, stride


def padding_of(taps):
    return 1 if taps == 4 else taps // 2


def output_side(side, taps, stride):
    return (side + 2 * padding_of(taps) - taps) // stride + 1


def convolution(batch, channels, side, outputs, taps, stride, groups=1):
    """It and its gradients by input and weight."""
    padding, out = padding_of(taps), output_side(side, taps, stride)
    flops = 2.0 * batch * outputs * out * out * channels // groups * taps * taps
    x, y, weight = [batch, channels, side, side], [batch, outputs, out, out], [outputs, channels // groups, taps, taps]
    how = {"stride": [stride] * 2, "padding": [padding] * 2, "groups": groups}
    yield called("conv2d", [View(x), View(weight), View([outputs])], y, options=how, flops=flops)
    yield called("conv2d_input", [View(y), View(weight)], x, options={"input_size": [side] * 2, **how}, flops=flops)
    yield called("conv2d_weight", [View(y), View(x)], weight, options={"kernel_size": [taps] * 2, **how}, flops=flops)


def attention(batch, heads, queries, keys, width, is_causal):
    views = [View([batch, heads, rows, width]) for rows in (queries, keys, keys)]
    flops = 4.0 * batch * heads * queries * keys * width
    for wanted in (None, [0, 1, 2]):
        yield called("scaled_dot_product_attention", views, views[0].shape, options={"is_causal": is_causal}, flops=flops,
                     wanted=wanted)


def recurrent(kernel, gates, steps, batch, inputs, hidden):
    states = [View([batch, hidden]) for _ in range(2 if kernel == "lstm" else 1)]
    weights = [View([gates * hidden, inputs]), View([gates * hidden, hidden]), View([gates * hidden]), View([gates * hidden])]
    views = [View([steps, batch, inputs]), *states, *weights]
    flops = 2.0 * steps * batch * gates * hidden * (inputs + hidden)
    for wanted in (None, list(range(len(views)))):
        yield called(kernel, views, [steps, batch, hidden], flops=flops, wanted=wanted)


def calls(device, near):
    for batch in BATCHES[device]:
        for layer in RESNET_STEM + RESNET_18 + RESNET_50 + VGG_16:
            yield from convolution(near.drawn(batch), *near.layer(*layer))
        for channels, side, stride in DEPTHWISE:
            channels, side, *_ = near.layer(channels, side, channels, 3, stride)
            yield from convolution(near.drawn(batch), channels, side, channels, 3, stride, groups=channels)
        for name, (heads, queries, keys, width, is_causal) in ATTENTION.items():
            yield from attention(near.drawn(batch if name != "wide heads" else 1), heads,
                                 *map(near.drawn, (queries, keys, width)), is_causal)
    for batch in BATCHES_OF_PROGRAMS[device]:
        for layer in LENET + DCGAN:
            yield from convolution(near.drawn(batch), *near.layer(*layer))
    for sizes in RECURRENT:
        yield from recurrent("gru", 3, *map(near.drawn, sizes))
        yield from recurrent("lstm", 4, *map(near.drawn, sizes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=list(BATCHES), default="cpu")
    parser.add_argument("--near", metavar="SEED", help="other sizes, drawn near the networks'")
    options = parser.parse_args()
    for one in sorted(calls(options.device, Near(options.near)), key=lambda one: one.flops * (2 if one.wanted else 1)):
        print(json.dumps(one.call()))

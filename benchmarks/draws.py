"""Random calls of operators, for `./dev bench --random`: which operator, on how much of what, laid out how. A draw depends on
seed, family, index and the device's limits alone, so any of them can be made again by itself.

Sizes are log-uniform over the ranges of FAMILIES; those of networks are in draw_networks.py. Of each three consecutive draws one
has sizes that are multiples of 64, one has odd ones, one has any: all sizes of a product, the columns of rows, the channels of
images, rows and width of attention, hidden units, the innermost size of other shapes.
"""
import random
from dataclasses import dataclass

import draw_networks
from drawing import (ALIGNED, ANY, ODD, THIRDS, Draw, View, any_view, count, dense_strides, log_uniform, offset_view, padded_view,
                     permuted_view, shape_of)

MOST_ELEMENTS, MOST_ROWS, MOST_COLUMNS = 1 << 27, 10**6, 10**5
MOST_SIDE, MOST_BATCH, MOST_FLOPS = 8192, 4096, 1 << 40
SMALL_ELEMENTS, SMALL_FLOPS = 1 << 20, 1 << 26  # under 10 µs of work on a GPU


@dataclass(frozen=True)
class Limits:
    """What a draw may take on a device: bytes of inputs' buffers and outputs, flops, element types; how many elements normalised,
    activated or indexed tensors have."""
    bytes: int
    flops: int
    dtypes: tuple
    elements: tuple


# The CPU's keep a draw under some seconds of two cores, its double precision included; its rivals compute in f32.
GPU_LIMITS = Limits(4 << 30, MOST_FLOPS, ("f32", "f16", "bf16"), (1 << 24, 1 << 27))
CPU_LIMITS = Limits(128 << 20, 1 << 32, ("f32",), (1 << 10, 1 << 23))


def limits_of(device):
    return CPU_LIMITS if device.split(":")[0] == "cpu" else GPU_LIMITS


# ---- families
POSITIVE = {"low": 0.1, "high": 2.0}
UNARY = {"neg": {}, "exp": {}, "log": POSITIVE, "sqrt": POSITIVE, "rsqrt": POSITIVE, "tanh": {}, "sigmoid": {}, "relu": {},
         "gelu": {}, "silu": {}}
BINARY = {"add": {}, "sub": {}, "mul": {}, "div": POSITIVE, "maximum": {}, "minimum": {}}


def elementwise(rng, third, limits, most=MOST_ELEMENTS, dense_share=0.5):
    """Unary and binary operators, the latter with broadcasting in 2 of 5; offsets, steps, gaps, swapped axes."""
    dtype = rng.choice(limits.dtypes)
    shape = shape_of(rng, rng.randint(1, 4), most, third)
    if rng.random() < 0.4:
        kernel = rng.choice(list(UNARY))
        views = [any_view(rng, shape, dense_share, dtype=dtype, **UNARY[kernel])]
    else:
        kernel = rng.choice(list(BINARY))
        shapes = [shape, shape]
        if rng.random() < 0.4:
            axes = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
            shapes[rng.randrange(2)] = [1 if i in axes else size for i, size in enumerate(shape)]
        views = [any_view(rng, s, dense_share, dtype=dtype, **BINARY[kernel]) for s in shapes]
    return Draw(kernel, views, shape, dtype)


def reductions(rng, third, limits, most=MOST_ELEMENTS, dense_share=0.7):
    """sum, mean and max over any axes, argmax over one or all."""
    dtype = rng.choice(limits.dtypes)
    shape = shape_of(rng, rng.randint(1, 4), most, third)
    kernel = rng.choice(("sum", "mean", "max", "argmax"))
    every = list(range(len(shape)))
    if kernel == "argmax":
        axes = every if rng.random() < 0.2 else [rng.choice(every)]
    else:
        axes = sorted(rng.sample(every, rng.randint(1, len(every))))
    view = any_view(rng, shape, dense_share, dtype=dtype)
    return Draw(kernel, [view], [size for i, size in enumerate(shape) if i not in axes], dtype,
                f"over {','.join(map(str, axes))} of {view.text()}", {"axes": axes},
                output_dtype="i64" if kernel == "argmax" else "")


def rows(rng, third, limits, most=None, dense_share=0.8):
    """softmax, log_softmax, their gradients and cross-entropy along rows."""
    dtype = rng.choice(limits.dtypes)
    shape = [log_uniform(rng, 1, MOST_ROWS), log_uniform(rng, 2, MOST_COLUMNS, third)]
    while most and count(shape) > most:
        shape = [log_uniform(rng, 1, MOST_ROWS), log_uniform(rng, 2, MOST_COLUMNS, third)]
    kernel = rng.choice(("softmax", "log_softmax", "softmax_grad", "log_softmax_grad", "cross_entropy"))

    def view(**values):
        if rng.random() < dense_share:
            return View(shape, dtype=dtype, **values)
        return rng.choice((offset_view, padded_view))(rng, shape, dtype=dtype, **values)
    views = [view()]
    if kernel.endswith("_grad"):  # y is what the operator wrote: dense
        views.append(View(shape, dtype=dtype, low=0.0 if kernel == "softmax_grad" else -1.0,
                          high=0.1 if kernel == "softmax_grad" else 1.0))
    if kernel == "cross_entropy":
        views.append(View(shape[:1], dtype="i64", low=0, high=shape[1] - 1))
        return Draw(kernel, views, shape[:1], dtype, views[0].text(), output_dtype="f32")
    return Draw(kernel, views, shape, dtype)


def permutes(rng, third, limits):
    """Dense copies of permuted tensors, and in 3 of 10 of other views."""
    dtype = rng.choice(limits.dtypes)
    if rng.random() < 0.3:
        view = any_view(rng, shape_of(rng, rng.randint(1, 5), MOST_ELEMENTS, third), 0, dtype=dtype)
    else:
        stored = shape_of(rng, rng.randint(2, 5), MOST_ELEMENTS, third)
        order = list(range(len(stored)))
        while order == sorted(order):
            rng.shuffle(order)
        view = permuted_view([stored[axis] for axis in order], order, dtype=dtype)
    return Draw("copy", [view], view.shape, dtype)


def product(rng, third, limits, dtypes, most_flops=MOST_FLOPS):
    """Four layouts; half of them in batches."""
    dtype = rng.choice([dtype for dtype in dtypes if dtype in limits.dtypes])
    while True:
        m, k, n = (log_uniform(rng, 1, MOST_SIDE, third) for _ in range(3))
        batch = log_uniform(rng, 1, MOST_BATCH) if rng.random() < 0.5 else 1
        flops = 2.0 * batch * m * k * n
        if flops <= most_flops:
            break
    transpose_a, transpose_b = rng.random() < 0.5, rng.random() < 0.5
    leading = [batch] if batch > 1 else []
    views = [View(leading + ([k, m] if transpose_a else [m, k]), dtype=dtype),
             View(leading + ([n, k] if transpose_b else [k, n]), dtype=dtype)]
    name = f"{'t' if transpose_a else 'n'}{'t' if transpose_b else 'n'}_{m}x{k}x{n}" + (f" times {batch}" * (batch > 1))
    return Draw("matmul", views, leading + [m, n], dtype, name, {"transpose_a": transpose_a, "transpose_b": transpose_b}, flops)


def products(rng, third, limits):
    return product(rng, third, limits, ("f32", "f16", "bf16"))


def products_f32(rng, third, limits):
    return product(rng, third, limits, ("f32",))


def layers(rng, third, limits):
    """activation(x · weightᵀ + bias)"""
    dtype = rng.choice(limits.dtypes)
    m, k, n = (log_uniform(rng, 1, MOST_SIDE, third) for _ in range(3))
    activation = rng.choice(("relu", "gelu"))
    return Draw("matmul", [View([m, k], dtype=dtype), View([n, k], dtype=dtype), View([n], dtype=dtype)], [m, n], dtype,
                f"linear_{activation}_{m}x{k}x{n}", {"transpose_b": True, "activation": activation}, 2.0 * m * k * n)


def launches(rng, third, limits):
    """Calls with less than 10 µs of work: what is left is the launch."""
    kind = rng.randrange(4)
    if kind == 0:
        return elementwise(rng, third, limits, SMALL_ELEMENTS, 1)
    if kind == 1:
        return reductions(rng, third, limits, SMALL_ELEMENTS, 1)
    if kind == 2:
        return rows(rng, third, limits, SMALL_ELEMENTS, 1)
    return product(rng, third, limits, ("f32", "f16", "bf16"), SMALL_FLOPS)


# By name: what draws, and the ranges in words for the report.
FAMILIES = {
    "elementwise": (elementwise, "1 to 2^27 elements of rank 1 to 4; broadcasting; offsets, steps, gaps, swapped axes"),
    "reductions": (reductions, "sum, mean, max over any axes, argmax over one or all; 1 to 2^27 elements of rank 1 to 4"),
    "rows": (rows, "softmax, log_softmax, their gradients, cross-entropy; 1 to 10^6 rows of 2 to 10^5"),
    "permutes": (permutes, "1 to 2^27 elements of rank 2 to 5; 3 of 10 are copies of other views"),
    "products_f32": (products_f32, "m, k, n from 1 to 8192, four layouts, half in batches up to 4096, at most 2^40 flops; f32"),
    "products": (products, "the same in f32, f16, bf16"),
    "layers": (layers, "x · weightᵀ + bias with ReLU or GELU; m, k, n from 1 to 8192"),
    "launches": (launches, "all of these up to 2^20 elements or 2^26 flops"),
    **draw_networks.FAMILIES,
}

OF_FLOPS = ("products", "products_f32", "layers", "convolutions", "attention", "recurrent")  # whose size is their work


def draw(seed, family, index, limits):
    """The index-th of a family; draws beyond the limits are drawn again."""
    rng = random.Random(f"{seed} {family} {index}")
    make = FAMILIES[family][0]
    while True:
        one = make(rng, THIRDS[index % 3], limits)
        if one.footprint() <= limits.bytes and one.flops <= limits.flops:
            one.family, one.index = family, index
            return one

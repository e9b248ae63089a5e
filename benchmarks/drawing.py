"""What a random draw is made of (draws.py): a call on views of buffers, random sizes, layouts."""
import math
from dataclasses import dataclass, field

BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8}
ALIGNED, ODD, ANY = "multiples of 64", "odd", "any"
THIRDS = (ALIGNED, ODD, ANY)


def count(shape):
    return math.prod(shape)


def dense_strides(shape):
    return [count(shape[i + 1:]) for i in range(len(shape))]


def joined(shape):
    return "x".join(map(str, shape)) or "1"


@dataclass
class View:
    """An input: part of a buffer of random numbers from `low` to `high`."""
    shape: list
    strides: list = None
    offset: int = 0
    dtype: str = "f32"
    low: float = -1.0
    high: float = 1.0
    layout: str = ""        # in words; "" is dense

    def __post_init__(self):
        self.strides = dense_strides(self.shape) if self.strides is None else self.strides

    def elements(self):
        """Of the buffer."""
        return self.offset + 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))

    def is_dense(self):
        """Row-major without gaps, wherever it begins."""
        return all(size == 1 or stride == dense for size, stride, dense in
                   zip(self.shape, self.strides, dense_strides(self.shape)))

    def text(self):
        return joined(self.shape) + (f" {self.layout}" if self.layout else "")


@dataclass
class Draw:
    """A call to measure, or with `wanted` its gradients alone. It has what measure.py and the rivals ask of a Benchmark
    (ashlar_library.py)."""
    kernel: str             # the operator; "copy" makes a view dense
    views: list
    output_shape: list
    dtype: str
    name: str = ""
    options: dict = field(default_factory=dict)
    flops: float = 0.0
    family: str = ""
    index: int = 0
    output_dtype: str = ""
    wanted: list = None     # inputs whose gradients are computed, by what the last view says of the first output's
    checked_call = 1
    operations = 1
    stateful = False

    def __post_init__(self):
        self.name = self.name or ", ".join(view.text() for view in self.views)
        if self.wanted:
            self.name = "backward " + self.name

    @property
    def key(self):
        return f"{self.kernel}/{self.name}/{self.dtype}"

    @property
    def inputs(self):
        """The buffers."""
        return [{"shape": [view.elements()], "low": view.low, "high": view.high, "dtype": view.dtype}
                for view in self.views]

    def dtype_of(self, i):
        return self.views[i].dtype

    @property
    def bytes(self):
        """Read and written: elements that the call needs, each once."""
        return sum(count(view.shape) * BYTES[view.dtype] for view in self.views) + self.output_bytes()

    def output_bytes(self):
        if self.wanted:
            return sum(count(self.views[i].shape) * BYTES[self.dtype] for i in self.wanted)
        return count(self.output_shape) * BYTES[self.output_dtype or self.dtype]

    def footprint(self):
        """Of one set of inputs, gaps included, with its outputs."""
        return sum(view.elements() * BYTES[view.dtype] for view in self.views) + self.output_bytes()

    def size(self):
        """What plots put on their axis: flops of products, else bytes."""
        return self.flops or self.bytes

    def call(self):
        """As ashlar_bench_make_call() takes it."""
        return {"operator": self.kernel, "options": self.options,
                "inputs": [{"dtype": view.dtype, "elements": view.elements(), "shape": view.shape,
                            "strides": view.strides, "offset": view.offset} for view in self.views],
                **({"wanted": self.wanted} if self.wanted else {})}


# ---- sizes and layouts
def log_uniform(rng, low, high, third=ANY):
    """An integer from low to high, both included; of a third its nearest there."""
    if third == ALIGNED and high >= 64:
        return min(high // 64, max(1, round(log_uniform_real(rng, max(low, 64), high) / 64))) * 64
    value = min(high, max(low, round(log_uniform_real(rng, low, high))))
    if third == ODD and value % 2 == 0:
        return value + 1 if value < high else value - 1
    return value


def log_uniform_real(rng, low, high):
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def shape_of(rng, rank, most, third):
    """`rank` sizes whose product is log-uniform from 1 to `most`; the innermost is of its third."""
    if rank == 1:
        return [log_uniform(rng, 1, most, third)]
    while True:
        cuts = [0.0, *sorted(rng.random() for _ in range(rank - 1)), 1.0]
        total = rng.uniform(0, math.log(most))
        sizes = [max(1, round(math.exp(total * (end - begin)))) for begin, end in zip(cuts, cuts[1:])]
        if third == ALIGNED:
            sizes[-1] = max(1, round(sizes[-1] / 64)) * 64
        elif third == ODD:
            sizes[-1] |= 1
        if count(sizes) <= most:
            return sizes


def offset_view(rng, shape, **values):
    offset = rng.randint(1, 15)
    return View(shape, offset=offset, layout=f"from element {offset}", **values)


def stepped_view(rng, shape, **values):
    """Every second or third index of an axis."""
    axis, step = rng.randrange(len(shape)), rng.randint(2, 3)
    whole = [size * (step if i == axis else 1) for i, size in enumerate(shape)]
    strides = [stride * (step if i == axis else 1) for i, stride in enumerate(dense_strides(whole))]
    return View(shape, strides, layout=f"step {step} on axis {axis}", **values)


def padded_view(rng, shape, **values):
    """The first columns of wider rows."""
    width = shape[-1] + rng.randint(1, 64)
    return View(shape, dense_strides([*shape[:-1], width]), layout=f"of rows of {width}", **values)


def swapped_view(rng, shape, **values):
    """Stored with two of its axes the other way round."""
    order = list(range(len(shape)))
    a, b = rng.sample(order, 2)
    order[a], order[b] = order[b], order[a]
    return permuted_view(shape, order, **values)


def permuted_view(shape, order, **values):
    """`shape[i]` is the size of axis order[i] of a dense tensor."""
    stored = [0] * len(shape)
    for size, axis in zip(shape, order):
        stored[axis] = size
    dense = dense_strides(stored)
    return View(shape, [dense[axis] for axis in order], layout=f"= {joined(stored)} permuted {''.join(map(str, order))}",
                **values)


def any_view(rng, shape, dense_share, **values):
    """Dense with a chance of `dense_share`, else one of the other layouts."""
    if rng.random() < dense_share:
        return View(shape, **values)
    makers = [offset_view, stepped_view, padded_view] + ([swapped_view] if len(shape) > 1 else [])
    return rng.choice(makers)(rng, shape, **values)

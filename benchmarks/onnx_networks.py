"""ONNX's operators of networks (draw_networks.py), forward, for DrawOnnx."""
from dataclasses import dataclass

import numpy as np

OPSET = 23
PLAIN = {"relu": ("Relu", {}), "gelu": ("Gelu", {}), "gelu_tanh": ("Gelu", {"approximate": "tanh"}), "mish": ("Mish", {}),
         "sigmoid": ("Sigmoid", {}), "tanh": ("Tanh", {}), "hardsigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
         "hardswish": ("HardSwish", {}), "hardshrink": ("Shrink", {"lambd": 0.5, "bias": 0.0}),
         "softshrink": ("Shrink", {"lambd": 0.5, "bias": 0.5}), "softplus": ("Softplus", {}), "softsign": ("Softsign", {}),
         "elu": ("Elu", {}), "selu": ("Selu", {}), "celu": ("Celu", {}), "leaky_relu": ("LeakyRelu", {"alpha": 0.01}),
         "layer_norm": ("LayerNormalization", {"axis": -1, "epsilon": 1e-5}),
         "rms_norm": ("RMSNormalization", {"axis": -1, "epsilon": 1e-5})}


def same(x):
    return x


@dataclass
class Model:
    nodes: list
    arrays: object = same       # of a set's views, what x0, x1, … are bound to
    constants: tuple = ()       # those of them that a model keeps


class Graph:
    """Nodes, and the names of what they give."""

    def __init__(self):
        self.nodes = []

    def one(self, operator, *inputs, to=None, **attributes):
        from onnx import helper
        to = to or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [to], **attributes))
        return to

    def constant(self, values):
        from onnx import numpy_helper
        return self.one("Constant", value=numpy_helper.from_array(np.asarray(values)))


def model(draw):
    """None where ONNX has nothing like it: no gradients but convolutions' by their input."""
    if draw.wanted:
        return None
    graph, names = Graph(), [f"x{i}" for i in range(len(draw.views))]
    if draw.kernel in PLAIN:
        operator, attributes = PLAIN[draw.kernel]
        graph.one(operator, *names, to="y", **attributes)
        return Model(graph.nodes)
    for makers in (ACTIVATIONS, LOSSES):
        if draw.kernel in makers:
            result = makers[draw.kernel](graph, *names)
            reduction = draw.options.get("reduction", "none")
            graph.one({"none": "Identity", "mean": "ReduceMean", "sum": "ReduceSum"}[reduction], result, to="y",
                      **({} if reduction == "none" else {"keepdims": 0}))
            return Model(graph.nodes)
    found = OTHERS[draw.kernel](graph, draw, *names) if draw.kernel in OTHERS else None
    return found if isinstance(found, Model) or found is None else Model(graph.nodes)


# ---- activations and losses that ONNX writes as several operators
def clipped(low, high):
    return lambda g, x: g.one("Clip", x, g.constant(np.float32(low)), g.constant(np.float32(high)))


def glu(g, x):
    from onnx import helper
    g.nodes.append(helper.make_node("Split", [x], ["half", "gate"], axis=-1, num_outputs=2))
    return g.one("Mul", "half", g.one("Sigmoid", "gate"))


ACTIVATIONS = {"relu6": clipped(0, 6), "hardtanh": clipped(-1, 1), "glu": glu,
               "prelu": lambda g, x, slope: g.one("PRelu", x, slope),
               "silu": lambda g, x: g.one("Mul", x, g.one("Sigmoid", x)),
               "logsigmoid": lambda g, x: g.one("Log", g.one("Sigmoid", x)),
               "tanhshrink": lambda g, x: g.one("Sub", x, g.one("Tanh", x))}


def mse(g, x, t):
    d = g.one("Sub", x, t)
    return g.one("Mul", d, d)


def huber(g, x, t):
    """Smooth L1, too, where both turn at 1."""
    d = g.one("Abs", g.one("Sub", x, t))
    inner = g.one("Clip", d, "", g.constant(np.float32(1)))
    half = g.one("Mul", g.one("Mul", inner, inner), g.constant(np.float32(0.5)))
    return g.one("Add", half, g.one("Sub", d, inner))


def binary_cross_entropy(g, x, t):
    one = g.constant(np.float32(1))
    yes, no = g.one("Log", x), g.one("Log", g.one("Sub", one, x))
    return g.one("Sub", g.one("Mul", g.one("Sub", t, one), no), g.one("Mul", t, yes))


LOSSES = {"mse_loss": mse, "l1_loss": lambda g, x, t: g.one("Abs", g.one("Sub", x, t)), "smooth_l1_loss": huber,
          "huber_loss": huber,
          "binary_cross_entropy": binary_cross_entropy,
          "binary_cross_entropy_with_logits": lambda g, x, t: g.one("Sub", g.one("Softplus", x), g.one("Mul", x, t)),
          "kl_div": lambda g, x, t: g.one("Mul", t, g.one("Sub", g.one("Log", t), x)),
          "kl_div_of_log_target": lambda g, x, t: g.one("Mul", g.one("Exp", t), g.one("Sub", t, x)),
          "cross_entropy": lambda g, x, t: g.one("SoftmaxCrossEntropyLoss", x, t, reduction="none")}


# ---- the others, of a graph, the draw and the inputs' names
def window(options):
    return {"strides": options["stride"], "pads": options["padding"] * 2}


def convolution(g, draw, *x):
    g.one("Conv", *x, to="y", group=draw.options.get("groups", 1), **window(draw.options))
    return Model(g.nodes, constants=(1, 2))


def convolution_input(g, draw, dy, weight):
    """A transposed convolution."""
    sizes, kernel, options = draw.views[0].shape[2:], draw.views[1].shape[2:], draw.options
    least = [(size - 1) * s - 2 * p + k for size, s, p, k in zip(sizes, options["stride"], options["padding"], kernel)]
    more = [size - small for size, small in zip(options["input_size"], least)]
    g.one("ConvTranspose", dy, weight, to="y", output_padding=more, **window(options))
    return Model(g.nodes, constants=(1,))


def pooled(operator, **attributes):
    def make(g, draw, x):
        g.one(operator, x, to="y", kernel_shape=draw.options["kernel_size"], **window(draw.options), **attributes)
        return g
    return make


def adaptive(g, draw, x):
    size, to = draw.views[0].shape[2], draw.options["output_size"][0]
    if to == 1:
        g.one("GlobalAveragePool", x, to="y")
    elif size % to == 0:
        g.one("AveragePool", x, to="y", kernel_shape=[size // to] * 2, strides=[size // to] * 2)
    else:
        return None
    return g


def interpolate(g, draw, x):
    nearest = draw.options["mode"] == "nearest"
    g.one("Resize", x, "", "", g.constant(np.int64(draw.output_shape)), to="y", mode=draw.options["mode"],
          **({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"} if nearest else {}))
    return g


def batch_norm(g, draw, x, mean, var, weight, bias):
    from onnx import helper
    g.nodes.append(helper.make_node("BatchNormalization", [x, weight, bias, mean, var], ["y", "mean", "var"], training_mode=1))
    return g


def group_norm(g, draw, *x):
    g.one("GroupNormalization", *x, to="y", num_groups=draw.options["num_groups"])
    return g


def attention(g, draw, *x):
    g.one("Attention", *x, to="y", is_causal=int(draw.options["is_causal"]))
    return g


def gates_in_order(order):
    """Weights [gates · hidden, …] with their gates in another order, in front of them an axis of directions."""
    return lambda w: np.concatenate([np.split(w, len(order))[i] for i in order])[None]


def recurrent(operator, order, states):
    """x0 are the inputs; behind them come first states, and weights and biases of inputs and states."""
    def make(g, draw, *_):
        from onnx import helper
        names = [f"x{i}" for i in range(4 + states)]
        g.nodes.append(helper.make_node(operator, [*names[:4], "", *names[4:]], ["steps"], hidden_size=draw.output_shape[-1],
                                        **({"linear_before_reset": 1} if operator == "GRU" else {})))
        g.one("Squeeze", "steps", g.constant(np.int64([1])), to="y")

        def arrays(x):
            ordered = gates_in_order(order)
            w_ih, w_hh, b_ih, b_hh = map(ordered, x[1 + states:])
            return [x[0], w_ih, w_hh, np.concatenate([b_ih, b_hh], axis=1), *(state[None] for state in x[1:1 + states])]
        return Model(g.nodes, arrays, (1, 2, 3))
    return make


def gather(g, draw, *x):
    g.one("GatherElements", *x, to="y", axis=draw.options["axis"])
    return g


def embedding(g, draw, index, weight):
    g.one("Gather", weight, index, to="y")
    return g


def scatter_add(g, draw, *x):
    g.one("ScatterElements", *x, to="y", axis=draw.options["axis"], reduction="add")
    return g


def dropout(g, draw, x, _):
    g.one("Dropout", x, g.constant(np.float32(draw.options["p"])), g.constant(np.bool_(True)), to="y")
    return Model(g.nodes, lambda x: x[:1])


OTHERS = {"conv2d": convolution, "conv2d_input": convolution_input, "max_pool2d_with_indices": pooled("MaxPool"),
          "avg_pool2d": pooled("AveragePool", count_include_pad=1), "adaptive_avg_pool2d": adaptive, "interpolate": interpolate,
          "batch_norm": batch_norm, "group_norm": group_norm, "scaled_dot_product_attention": attention,
          "gru": recurrent("GRU", (1, 0, 2), 1), "lstm": recurrent("LSTM", (0, 3, 1, 2), 2), "gather": gather,
          "embedding": embedding, "scatter_add": scatter_add, "dropout_at": dropout}

"""What the benchmarks compute, by NumPy in double: the judge of numbers where there is no PyTorch."""
import re

import numpy as np
from ml_dtypes import bfloat16
from scipy.special import erf

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": bfloat16, "i64": np.int64,
          "i32": np.int32, "u8": np.uint8}
ADAM = {"rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}


def is_float(x):
    return x.dtype.kind == "f" or x.dtype == bfloat16  # a kind of its own to NumPy


def gelu(x):
    return x * 0.5 * (1 + erf(x / np.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def cross_entropy(logits, labels):
    """Mean loss and its gradient."""
    rows = np.arange(len(labels))
    gradient = softmax(logits)
    loss = -log_softmax(logits)[rows, labels].mean()
    gradient[rows, labels] -= 1
    return loss, gradient / len(labels)


def adam_step(state, parameters, gradients, t):
    for i, (w, g) in enumerate(zip(parameters, gradients)):
        m, v = state[i]
        m += (1 - ADAM["beta1"]) * (g - m)
        v += (1 - ADAM["beta2"]) * (g * g - v)
        w -= ADAM["rate"] * (m / (1 - ADAM["beta1"] ** t)) / (np.sqrt(v / (1 - ADAM["beta2"] ** t)) + ADAM["eps"])


def mlp_losses(steps, pixels, labels, *layers):
    """The loss before each of the first Adam steps."""
    parameters = [layer.copy() for layer in layers]
    state = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    losses = []
    for t in range(1, steps + 1):
        activations = [pixels]
        for weight, bias in zip(parameters[::2], parameters[1::2]):
            activations.append(np.maximum(activations[-1] @ weight.T + bias, 0))
        activations[-1] = activations[-2] @ parameters[-2].T + parameters[-1]
        loss, gradient = cross_entropy(activations[-1], labels)
        losses.append(loss)
        gradients = []
        for i in range(len(parameters) // 2 - 1, -1, -1):
            gradients = [gradient.T @ activations[i], gradient.sum(axis=0)] + gradients
            gradient = (gradient @ parameters[2 * i]) * (activations[i] > 0)
        adam_step(state, parameters, gradients, t)
    return losses


def roll_out(first, weight, bias_ih, bias_hh, steps=10):
    """The states of gated recurrent units, [steps, members, batch, hidden], that run on by themselves."""
    def sigmoid(x):
        return 1 / (1 + np.exp(-x))
    states, h = [], first
    for _ in range(steps):
        x_r, x_z, x_n = np.split(bias_ih[:, None], 3, axis=-1)
        a_r, a_z, a_n = np.split(h @ weight + bias_hh[:, None], 3, axis=-1)
        z, n = sigmoid(x_z + a_z), np.tanh(x_n + sigmoid(x_r + a_r) * a_n)
        h = n + z * (h - n)
        states.append(h)
    return np.stack(states)


def forecast_chain(left, right, weights, share, states, weight, bias, start, *units):
    """Corrected weights, and the states that a state of the training rolls out to."""
    encoded = np.maximum(states @ weight.T + bias, 0)
    first = np.tanh(encoded @ start.T).reshape(len(states), len(units[0]), -1).transpose(1, 0, 2)
    return weights + share * (left @ right.T), roll_out(first, *units)


UNARY = {"neg": np.negative, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
         "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0), "gelu": gelu,
         "silu": lambda x: x / (1 + np.exp(-x))}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
          "minimum": np.minimum}
REDUCTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin}
ROWS = {"softmax": softmax, "log_softmax": log_softmax,
        "softmax_grad": lambda dy, y: y * (dy - (dy * y).sum(axis=-1, keepdims=True)),
        "log_softmax_grad": lambda dy, y: dy - np.exp(y) * dy.sum(axis=-1, keepdims=True)}


def axis_of(name):
    return {"rows": 1, "columns": 0, "all": None}[name.split("_")[0]]


def axes_of(name):
    order = re.match(r"permute_([0-9]+)_", name)
    return [int(axis) for axis in order.group(1)] if order else [1, 0]


def transposes_of(name):
    found = re.match(r"([nt])([nt])_", name)
    return tuple(letter == "t" for letter in found.groups()) if found else (False, False)


def exact_values(benchmark, x):
    """[(value, magnitude)], or None. `x`: inputs, floats as double."""
    kernel, name = benchmark.kernel, benchmark.name
    if kernel in UNARY or kernel in BINARY:
        values = [(UNARY.get(kernel) or BINARY[kernel])(*x)]
    elif kernel in REDUCTIONS:
        values = [REDUCTIONS[kernel](x[0], axis=axis_of(name))]
        if kernel in ("sum", "mean"):
            return [(values[0], REDUCTIONS[kernel](np.abs(x[0]), axis=axis_of(name)))]
    elif kernel in ROWS:
        values = [ROWS[kernel](*x)]
    elif kernel == "copy":
        values = [x[0].transpose(axes_of(name)) if name.startswith("permute") else x[0]]
    elif kernel == "matmul" and name.startswith("linear"):
        y = x[0] @ x[1].T + (x[2] if len(x) > 2 else 0)
        values = [gelu(y) if "_gelu_" in name else y if "_none_" in name else np.maximum(y, 0)]
    elif kernel == "matmul":
        a, b = (m.T if t else m for m, t in zip(x, transposes_of(name)))
        values = [a @ b]
    elif kernel == "fused_chain":
        values = [gelu(x[0] + x[1]) * x[2]]
    elif kernel == "cross_entropy" and name.startswith("training"):
        values = list(cross_entropy(*x))
    elif kernel == "mlp_step":
        values = [mlp_losses(benchmark.checked_call, *x)[-1]]
    elif kernel == "encode_state":
        values = [np.maximum(x[0] @ x[1].T + x[2], 0)]
    elif kernel == "gru_rollout":
        values = [roll_out(*x)]
    elif kernel == "compress_residuals":  # the vectors have any sign
        values = [np.linalg.svd(x[0] @ x[1].T, compute_uv=False)[:x[0].shape[1]]]
    elif kernel == "apply_corrections":
        values = [x[0] + x[3] * (x[1] @ x[2].T)]
    elif kernel == "corrections_in_turn":
        values = [weights + x[3] * (left @ right.T) for left, right, weights in zip(*x[:3])]
    elif kernel == "forecast_chain":
        values = list(forecast_chain(*x))
    elif kernel == "adam":
        parameters = [x[0][0].copy(), x[0][-1].copy()]
        state = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
        adam_step(state, parameters, [x[1][0], x[1][-1]], 1)
        values = parameters
    else:
        return None
    values = [np.asarray(v) for v in values]
    return [(v, np.max(np.abs(v)) if v.dtype.kind == "f" else np.float64(1)) for v in values]

"""PyTorch's programs of the operators of networks (draw_networks.py), as its users write them, for 1.13 and newer: rivals, and in
double the judges of all numbers on every device, of gradients too. A program takes a draw's views and returns its first output.
"""
import functools

import torch
import torch.nn.functional as F
from torch.nn import grad

PLAIN = {"relu": F.relu, "relu6": F.relu6, "gelu": F.gelu, "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
         "silu": F.silu, "mish": F.mish, "sigmoid": torch.sigmoid, "logsigmoid": F.logsigmoid, "tanh": torch.tanh,
         "tanhshrink": F.tanhshrink, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "hardtanh": F.hardtanh,
         "hardshrink": F.hardshrink, "softshrink": F.softshrink, "softplus": F.softplus, "softsign": F.softsign, "elu": F.elu,
         "selu": F.selu, "celu": F.celu, "leaky_relu": F.leaky_relu, "prelu": F.prelu, "glu": F.glu,
         "embedding": F.embedding, "cross_entropy": functools.partial(F.cross_entropy, reduction="none")}
LOSSES = {name: getattr(F, name) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
                                             "binary_cross_entropy_with_logits")}
LOSSES.update({"kl_div": F.kl_div, "kl_div_of_log_target": functools.partial(F.kl_div, log_target=True)})
BENDS = (0.0, 0.5, 1.0, 3.0, 6.0)
# What runs under PyTorch's deterministic algorithms on a GPU, as all of ours does.
DETERMINISTIC = (("scatter_add", False), ("embedding", True))  # (operator, backward)
MODES = {"lstm": 2, "gru": 3}  # cuDNN's numbers


def program(draw):
    kernel, options = draw.kernel, draw.options
    if kernel in PLAIN:
        return PLAIN[kernel]
    if kernel in LOSSES:
        return functools.partial(LOSSES[kernel], **options)
    return PROGRAMS[kernel](options)


def layer_norm(_):
    return lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(_):
    eps = 1e-5
    if hasattr(F, "rms_norm"):
        return lambda x, weight: F.rms_norm(x, x.shape[-1:], weight, eps)
    return lambda x, weight: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def group_norm(options):
    return lambda x, weight, bias: F.group_norm(x, options["num_groups"], weight, bias)


def batch_norm(_):
    return lambda x, mean, var, weight, bias: F.batch_norm(x, mean, var, weight, bias, training=True)


def conv2d(options):
    return functools.partial(F.conv2d, **options)


def conv2d_input(options):
    size, rest = options["input_size"], {name: options[name] for name in ("stride", "padding")}
    return lambda dy, weight: grad.conv2d_input([dy.shape[0], weight.shape[1], *size], weight, dy, **rest)


def conv2d_weight(options):
    size, rest = options["kernel_size"], {name: options[name] for name in ("stride", "padding")}
    return lambda dy, x: grad.conv2d_weight(x, [dy.shape[1], x.shape[1], *size], dy, **rest)


def max_pool2d(options):
    return lambda x: F.max_pool2d(x, return_indices=True, **options)[0]


def interpolate(options):
    mode = {"nearest": "nearest", "linear": "bilinear"}[options["mode"]]
    return functools.partial(F.interpolate, size=options["size"], mode=mode)


@functools.lru_cache(1)
def hidden_keys(rows, dtype):
    """What is added to scores where a query comes before a key; made once."""
    return torch.full([rows, rows], -float("inf"), dtype=dtype).triu(1)


def attention(options):
    causal = options["is_causal"]
    if hasattr(F, "scaled_dot_product_attention"):
        return functools.partial(F.scaled_dot_product_attention, is_causal=causal)

    def written_out(query, key, value):
        q, k, v = (x.flatten(0, -3) for x in (query, key, value))
        mask = hidden_keys(q.shape[-2], q.dtype) if causal else q.new_zeros(1)
        scores = torch.baddbmm(mask, q, k.transpose(-1, -2), beta=int(causal), alpha=q.shape[-1] ** -0.5)
        return torch.bmm(torch.softmax(scores, -1), v).view(query.shape)
    return written_out


def gru(_):
    return lambda x, h, *weights: torch.gru(x, h[None], weights, True, 1, 0.0, torch.is_grad_enabled(), False, False)[0]


def lstm(_):
    return lambda x, h, c, *weights: torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, torch.is_grad_enabled(), False,
                                                False)[0]


def gather(options):
    return lambda x, index: torch.gather(x, options["axis"], index)


def scatter_add(options):
    return lambda x, index, src: torch.scatter_add(x, options["axis"], index, src)


def dropout(options):
    return lambda x, _: F.dropout(x, options["p"], training=True)


PROGRAMS = {"layer_norm": layer_norm, "rms_norm": rms_norm, "group_norm": group_norm, "batch_norm": batch_norm, "conv2d": conv2d,
            "conv2d_input": conv2d_input, "conv2d_weight": conv2d_weight, "max_pool2d_with_indices": max_pool2d,
            "avg_pool2d": lambda options: functools.partial(F.avg_pool2d, **options),
            "adaptive_avg_pool2d": lambda options: functools.partial(F.adaptive_avg_pool2d, **options), "interpolate": interpolate,
            "scaled_dot_product_attention": attention, "gru": gru, "lstm": lstm, "gather": gather, "scatter_add": scatter_add,
            "dropout_at": dropout}


class Gradients:
    """What PyTorch's tape computes of a draw's gradients, again at each call. The forward pass runs once, here."""

    def __init__(self, draw, function, views):
        *operands, self.upstream = views
        with torch.enable_grad():
            operands = [x.detach().requires_grad_(i in draw.wanted) for i, x in enumerate(operands)]
            self.of, self.y = [operands[i] for i in draw.wanted], function(*operands)

    def __call__(self):
        return torch.autograd.grad(self.y, self.of, self.upstream, retain_graph=True)


class Deterministic:
    """A call under PyTorch's deterministic algorithms, which don't fill new tensors for it."""

    def __init__(self, call):
        self.call = call
        torch.utils.deterministic.fill_uninitialized_memory = False

    def __call__(self):
        torch.use_deterministic_algorithms(True)
        try:
            return self.call()
        finally:
            torch.use_deterministic_algorithms(False)


def prepared(draw, views):
    """The views as a module keeps them: cuDNN wants the weights of recurrent layers in one piece."""
    if draw.kernel not in MODES or not views[0].is_cuda or not torch.backends.cudnn.is_acceptable(views[0]):
        return views
    states = 2 if draw.kernel == "gru" else 3
    weights = [x.clone() for x in views[states:states + 4]]
    torch._cudnn_rnn_flatten_weight(weights, 4, views[0].shape[-1], MODES[draw.kernel], weights[1].shape[-1], 0, 1, False, False)
    return [*views[:states], *weights, *views[states + 4:]]


def call_of(draw, function, views):
    """The call that is timed."""
    views = prepared(draw, views)
    call = Gradients(draw, function, views) if draw.wanted else functools.partial(function, *views)
    return Deterministic(call) if (draw.kernel, bool(draw.wanted)) in DETERMINISTIC and views[0].is_cuda else call


class Dropped:
    """The judge of dropout: each element is 0 or what it should be, and about as many are 0 as should be."""

    def __init__(self, x, p):
        self.x, self.p = x, p

    def error(self, y):
        if tuple(y.shape) != tuple(self.x.shape):
            return float("inf")
        y, scaled = y.to(self.x.device).double(), self.x.double() / (1 - self.p)
        zero = y == 0
        off = float(zero.double().mean()) - self.p
        if abs(off) > 6 * (self.p * (1 - self.p) / y.numel()) ** 0.5 + 1 / y.numel():
            return float("inf")
        return float(((y - scaled).abs() / scaled).masked_fill(zero, 0).max())


def magnitude(value, upstream):
    """The largest value; of a gradient with fewer elements than there are terms, no less than a third of what so many terms of
    either sign come to, whose sum may happen to be next to nothing."""
    largest = value.abs().max()
    if upstream is None or upstream.numel() <= value.numel():
        return largest
    return torch.maximum(largest, upstream.square().mean().sqrt() * (upstream.numel() / value.numel()) ** 0.5 / 3)


def judged(draw, views):
    """What numbers are compared with, of views in double: [(value, magnitude)]; or a judge that has error()."""
    if draw.kernel == "dropout_at":
        return Dropped(views[0], draw.options["p"])
    function = program(draw)
    values = Gradients(draw, function, views)() if draw.wanted else [function(*views)]
    found = [(value, magnitude(value, views[-1] if draw.wanted else None)) for value in values]
    if draw.wanted and draw.family == "activations":  # at a bend the slope on either side is right; PyTorch's versions differ
        value, largest = found[0]
        bends = torch.isin(views[0].abs(), torch.tensor(BENDS, dtype=value.dtype, device=value.device))
        found[0] = value, torch.where(bends, float("inf"), largest)
    return found

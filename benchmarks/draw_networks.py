"""Random calls of the operators of networks (draws.py), forward and backward, all in f32. Backward is the gradients alone, of
an output whose gradient is given; the forward pass is on the tape already.
"""
from drawing import Draw, View, count, joined, log_uniform

MOST_ROWS_OF_TABLE, MOST_SIDE_OF_IMAGE, MOST_CHANNELS = 10**6, 224, 512
MOST_SCORES = 1 << 30  # of attention: the judge has all of them in double
POSITIVE = {"low": 0.1, "high": 2.0}
PROBABILITY = {"low": 0.01, "high": 0.99}
LOGARITHM = {"low": -5.0, "high": -0.1}


def called(kernel, views, shape, name="", options=None, flops=0.0, wanted=None):
    """`shape` is the first output's; with `wanted` the call is the gradients of these inputs."""
    name = name or ", ".join(view.text() for view in views)
    views = views + [View(list(shape))] if wanted else views
    return Draw(kernel, views, list(shape), "f32", name, options or {}, flops, wanted=wanted)


def chosen(rng, wanted):
    """The gradients of `wanted` in half of the draws."""
    return wanted if rng.random() < 0.5 else None


def rows_of(rng, third, limits, low=16, high=16384):
    """[rows, columns] of as many elements as the limits say."""
    columns = log_uniform(rng, low, high, third)
    return [max(1, round(log_uniform(rng, *limits.elements) / columns)), columns]


def norms(rng, third, limits):
    """layer_norm, rms_norm and group_norm."""
    kernel = rng.choice(("layer_norm", "rms_norm", "group_norm"))
    if kernel != "group_norm":
        shape = rows_of(rng, third, limits)
        operands = [View(shape[-1:]) for _ in range(2 if kernel == "layer_norm" else 1)]
        return called(kernel, [View(shape), *operands], shape, wanted=chosen(rng, list(range(1 + len(operands)))))
    groups, of_group = rng.choice((1, 4, 8, 16, 32)), log_uniform(rng, 1, 16)
    rows, columns = rows_of(rng, third, limits, max(16, of_group))
    places = -(-columns // of_group)
    shape = [-(-rows // groups), groups * of_group, places]
    return called(kernel, [View(shape), View([shape[1]]), View([shape[1]])], shape, f"{joined(shape)} in {groups} groups",
                  {"num_groups": groups}, wanted=chosen(rng, [0, 1, 2]))


def image(rng, third, limits, least_channels=3, most_batch=128):
    """[batch, channels, side, side]"""
    return [log_uniform(rng, 1, most_batch), log_uniform(rng, least_channels, MOST_CHANNELS, third),
            *[log_uniform(rng, 7, MOST_SIDE_OF_IMAGE)] * 2]


def batch_norm(rng, third, limits):
    """In training: the running statistics move, too."""
    shape = image(rng, third, limits)
    while not limits.elements[0] <= count(shape) <= limits.elements[1]:
        shape = image(rng, third, limits)
    of_channels = [View(shape[1:2]), View(shape[1:2], **POSITIVE), View(shape[1:2]), View(shape[1:2])]
    return called("batch_norm", [View(shape), *of_channels], shape, joined(shape), {"training": True},
                  wanted=chosen(rng, [0, 3, 4]))


ACTIVATIONS = ("relu", "relu6", "gelu", "gelu_tanh", "silu", "mish", "sigmoid", "logsigmoid", "tanh", "tanhshrink", "hardsigmoid",
               "hardswish", "hardtanh", "hardshrink", "softshrink", "softplus", "softsign", "elu", "selu", "celu", "leaky_relu",
               "prelu", "glu")


def activations(rng, third, limits):
    kernel = rng.choice(ACTIVATIONS)
    shape = rows_of(rng, third, limits)
    x = View(shape, low=-4.0, high=4.0)  # beyond all bends
    if kernel == "prelu":
        return called(kernel, [x, View([rng.choice((1, shape[1]))])], shape, wanted=chosen(rng, [0, 1]))
    if kernel == "glu":
        x = View([shape[0], 2 * shape[1]], low=-4.0, high=4.0)
    return called(kernel, [x], shape, wanted=chosen(rng, [0]))


LOSSES = {"mse_loss": ({}, {}), "l1_loss": ({}, {}), "smooth_l1_loss": ({}, {}), "huber_loss": ({}, {}),
          "binary_cross_entropy": (PROBABILITY, PROBABILITY), "binary_cross_entropy_with_logits": ({}, PROBABILITY),
          "kl_div": (LOGARITHM, PROBABILITY), "kl_div_of_log_target": (LOGARITHM, LOGARITHM), "cross_entropy": None}
PARAMETERS = {"smooth_l1_loss": {"beta": 1.0}, "huber_loss": {"delta": 1.0}}


def losses(rng, third, limits):
    """Of two tensors: each, their mean or their sum; cross-entropy of each row."""
    kernel = rng.choice(list(LOSSES))
    shape = rows_of(rng, third, limits)
    wanted = chosen(rng, [0])
    if kernel == "cross_entropy":
        return called(kernel, [View(shape), View(shape[:1], dtype="i64", low=0, high=shape[1] - 1)], shape[:1], joined(shape),
                      wanted=wanted)
    reduction = rng.choice(("none", "mean", "sum"))
    views = [View(shape, **values) for values in LOSSES[kernel]]
    return called(kernel, views, shape if reduction == "none" else [], f"{reduction} of {joined(shape)}",
                  {"reduction": reduction, **PARAMETERS.get(kernel, {})}, wanted=wanted)


def convolved(size, kernel, stride):
    """Elements along an axis, padded so that stride 1 keeps them."""
    return (size + kernel // 2 * 2 - kernel) // stride + 1


def convolutions(rng, third, limits):
    """conv2d with a bias, and its gradients by input and weight."""
    what = rng.choice(("conv2d", "conv2d_input", "conv2d_weight"))
    size, stride = rng.choice((1, 3)), rng.choice((1, 1, 1, 2))
    x = image(rng, third, limits)
    if rng.random() < 0.1:
        x[1] = 3
    y = [x[0], log_uniform(rng, 3, MOST_CHANNELS, third), *[convolved(x[2], size, stride)] * 2]
    weight = [y[1], x[1], size, size]
    options = {"stride": [stride] * 2, "padding": [size // 2] * 2}
    flops = 2.0 * count(y) * count(weight[1:])
    name = f"{size}x{size} {joined(x)} to {y[1]} channels" + (f" stride {stride}" * (stride > 1))
    if what == "conv2d":
        return called(what, [View(x), View(weight), View(y[1:2])], y, name, options, flops)
    if what == "conv2d_input":
        return called(what, [View(y), View(weight)], x, name, {"input_size": x[2:], **options}, flops)
    return called(what, [View(y), View(x)], weight, name, {"kernel_size": [size] * 2, **options}, flops)


def windows(rng, third, limits):
    """Depthwise conv2d, pooling, interpolation."""
    kernel = rng.choice(("conv2d", "max_pool2d_with_indices", "avg_pool2d", "adaptive_avg_pool2d", "interpolate"))
    x = image(rng, third, limits)
    channels = x[1]
    if kernel == "conv2d":
        size, stride = rng.choice((3, 3, 5, 7)), rng.choice((1, 2))
        y = [*x[:2], *[convolved(x[2], size, stride)] * 2]
        return called(kernel, [View(x), View([channels, 1, size, size]), View([channels])], y,
                      f"depthwise {size}x{size} {joined(x)} stride {stride}",
                      {"stride": [stride] * 2, "padding": [size // 2] * 2, "groups": channels}, wanted=chosen(rng, [0, 1, 2]))
    if kernel == "adaptive_avg_pool2d":
        to = rng.choice((1, 7))
        return called(kernel, [View(x)], [*x[:2], to, to], f"{joined(x)} to {to}", {"output_size": [to, to]},
                      wanted=chosen(rng, [0]))
    if kernel == "interpolate":
        mode, to = rng.choice(("nearest", "linear")), rng.choice((2 * x[2], log_uniform(rng, 7, MOST_SIDE_OF_IMAGE)))
        return called(kernel, [View(x)], [*x[:2], to, to], f"{mode} {joined(x)} to {to}", {"mode": mode, "size": [to, to]},
                      wanted=chosen(rng, [0]))
    size, stride, padding = rng.choice(((2, 2, 0), (3, 2, 1), (3, 1, 1)))
    to = (x[2] + 2 * padding - size) // stride + 1
    return called(kernel, [View(x)], [*x[:2], to, to], f"{size}x{size} {joined(x)} stride {stride}",
                  {"kernel_size": [size] * 2, "stride": [stride] * 2, "padding": [padding] * 2}, wanted=chosen(rng, [0]))


def attention(rng, third, limits):
    """Scaled dot products, causal and full."""
    while True:
        batch, heads = log_uniform(rng, 1, 16), log_uniform(rng, 1, 16)
        rows, width = log_uniform(rng, 128, 8192, third), log_uniform(rng, 32, 128, third)
        if batch * heads * rows * rows <= MOST_SCORES:
            break
    shape = [batch, heads, rows, width]
    causal, wanted = rng.random() < 0.5, chosen(rng, [0, 1, 2])
    flops = 4.0 * batch * heads * rows * rows * width * (0.5 if causal else 1) * (2.5 if wanted else 1)
    return called("scaled_dot_product_attention", [View(shape) for _ in range(3)], shape,
                  f"{'causal' if causal else 'full'} {joined(shape)}", {"is_causal": causal}, flops, wanted)


def recurrent(rng, third, limits):
    """A layer of gated recurrent units or of long short-term memory over a sequence, the products with its inputs included."""
    kernel, gates = rng.choice((("gru", 3), ("lstm", 4)))
    steps, batch, inputs, hidden = (log_uniform(rng, 8, 512), log_uniform(rng, 1, 256), log_uniform(rng, 16, 1024),
                                    log_uniform(rng, 16, 1024, third))
    states = [View([batch, hidden]) for _ in range(1 if kernel == "gru" else 2)]
    bound = {"low": -hidden ** -0.5, "high": hidden ** -0.5}
    weights = [View(shape, **bound) for shape in ([gates * hidden, inputs], [gates * hidden, hidden], [gates * hidden],
                                                  [gates * hidden])]
    views = [View([steps, batch, inputs]), *states, *weights]
    wanted = chosen(rng, list(range(len(views))))
    flops = 2.0 * steps * batch * gates * hidden * (inputs + hidden) * (2 if wanted else 1)
    return called(kernel, views, [steps, batch, hidden], f"{steps} steps of {batch}, {inputs} to {hidden}", None, flops, wanted)


def indexing(rng, third, limits):
    """gather, embedding and its gradient, scatter_add, dropout."""
    kernel = rng.choice(("gather", "embedding", "scatter_add", "dropout_at"))
    if kernel == "dropout_at":
        shape = rows_of(rng, third, limits)
        return called(kernel, [View(shape, **POSITIVE), View([2], dtype="i64", low=0, high=1 << 20)], shape, joined(shape),
                      {"p": rng.choice((0.1, 0.2, 0.5))})
    columns = log_uniform(rng, 1, 4096, third)
    rows, places = (min(MOST_ROWS_OF_TABLE, max(1, round(log_uniform(rng, limits.elements[0] // 16, limits.elements[1]) / columns)))
                    for _ in range(2))
    table, lines = [rows, columns], [places, columns]
    if kernel == "embedding":
        return called(kernel, [View([places], dtype="i64", low=0, high=rows - 1), View(table)], lines,
                      f"{places} of {joined(table)}", wanted=chosen(rng, [1]))
    axis = rng.choice((0, 1))
    if axis == 1:  # as many rows, other columns
        lines = [rows, max(1, min(MOST_ROWS_OF_TABLE, round(count(lines) / rows)))]
    index, name = View(lines, dtype="i64", low=0, high=table[axis] - 1), f"{joined(lines)} on axis {axis} of {joined(table)}"
    if kernel == "gather":
        return called(kernel, [View(table), index], lines, name, {"axis": axis})
    return called(kernel, [View(table), index, View(lines)], table, name, {"axis": axis})


FAMILIES = {
    "norms": (norms, "layer_norm, rms_norm, group_norm, forward and backward; rows of 16 to 16384; f32, as all that follow"),
    "batch_norm": (batch_norm, "in training, forward and backward; 3 to 512 channels of 7² to 224²"),
    "activations": (activations, f"{len(ACTIVATIONS)} of PyTorch's, forward and backward"),
    "losses": (losses, f"{len(LOSSES)} of PyTorch's: each, mean and sum, forward and backward"),
    "convolutions": (convolutions, "conv2d 1x1 and 3x3, stride 1 and 2, its gradients by input and by weight; 3 to 512 channels of "
                     "7² to 224², batches of 1 to 128"),
    "windows": (windows, "depthwise conv2d, pooling, interpolation, forward and backward; images as of convolutions"),
    "attention": (attention, "causal and full, forward and backward; 128 to 8192 rows of 32 to 128, 1 to 256 of these"),
    "recurrent": (recurrent, "layers of GRU and LSTM, forward and backward; 8 to 512 steps of 1 to 256, 16 to 1024 inputs and as "
                  "many hidden"),
    "indexing": (indexing, "gather, scatter_add, embedding and its gradient, dropout; tables of up to 10^6 rows"),
}

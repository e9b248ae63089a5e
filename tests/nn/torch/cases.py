"""The cases of modules.py: CASES[name]() → (module, inputs). Names begin with that of our class (nn/modules)."""
import zlib

import torch
from torch import nn
from torch.nn import functional

CASES = {}


class Calls(nn.Module):
    """A module called by a function of its own; its state is the module's."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *inputs):
        return self.call(self.module, *inputs)


def owner_of(module):
    return module.module if isinstance(module, Calls) else module


def add(name, make, *inputs, call=None, train=True):
    """`make` makes the module. Of the inputs a shape stands for normal numbers, a function makes something else."""

    def build():
        torch.manual_seed(zlib.crc32(name.encode()))
        module = make()
        # Parameters and statistics that are all alike show little.
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.numel() > 1 and (parameter == parameter.flatten()[0]).all():
                    parameter.add_(torch.rand_like(parameter) - 0.5)
            for key, buffer in module.named_buffers():
                if key.endswith("running_mean") or key.endswith("running_var"):
                    buffer.add_(torch.rand_like(buffer) * 0.5)
        made = [one() if callable(one) else torch.randn(one) for one in inputs]
        module.train(train)
        return (Calls(module, call) if call else module), made

    assert name not in CASES, name
    CASES[name] = build


def integers(high, *shape):
    return lambda: torch.randint(0, high, shape)


def probabilities(*shape):
    return lambda: torch.rand(shape) * 0.9 + 0.05


def positive(*shape):
    return lambda: torch.rand(shape) + 0.5


def signs(*shape):
    return lambda: torch.randint(0, 2, shape) * 2 - 1


def distributions(*shape):
    return lambda: torch.softmax(torch.randn(shape), 1)


def all_of(*values):
    return lambda: torch.tensor(values)


# ---- modules that PyTorch 1.13 has no class for


class RMSNorm(nn.Module):
    def __init__(self, *shape, eps=2**-23):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.rand(shape) + 0.5), eps

    def forward(self, x):
        axes = list(range(-self.weight.dim(), 0))
        return x * torch.rsqrt((x * x).mean(axes, keepdim=True) + self.eps) * self.weight


class LPPool3d(nn.Module):
    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type, self.window = norm_type, (kernel_size, stride, 0, ceil_mode)

    def forward(self, x):
        sizes = self.window[0] if isinstance(self.window[0], tuple) else (self.window[0],) * 3
        means = functional.avg_pool3d(x.pow(self.norm_type), *self.window)
        return (means * (sizes[0] * sizes[1] * sizes[2])).pow(1 / self.norm_type)


class ZeroPad1d(nn.ConstantPad1d):
    def __init__(self, padding):
        super().__init__(padding, 0)


class ZeroPad3d(nn.ConstantPad3d):
    def __init__(self, padding):
        super().__init__(padding, 0)


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


def newest(name):
    """PyTorch's class where it has one."""
    return getattr(nn, name, globals()[name])


# ---- linear, embeddings

add("Linear", lambda: nn.Linear(5, 3), (4, 5))
add("Linear.without_bias", lambda: nn.Linear(5, 3, bias=False), (2, 3, 5))
add("Bilinear", lambda: nn.Bilinear(3, 4, 2), (2, 3, 3), (2, 3, 4))
add("Embedding", lambda: nn.Embedding(7, 3), integers(7, 2, 5))
add("Embedding.padding_idx", lambda: nn.Embedding(7, 3, padding_idx=2), integers(7, 4, 5))
add("EmbeddingBag", lambda: nn.EmbeddingBag(7, 3, mode="sum"), integers(7, 4, 5))
add("EmbeddingBag.mean", lambda: nn.EmbeddingBag(7, 3), integers(7, 11), all_of(0, 4, 4, 9))
add("EmbeddingBag.max", lambda: nn.EmbeddingBag(7, 3, mode="max"), integers(7, 4, 5))
add("EmbeddingBag.weighted", lambda: nn.EmbeddingBag(7, 3, mode="sum"), integers(7, 11), all_of(0, 4, 4, 9), (11,),
    call=lambda m, x, offsets, weights: m(x, offsets, per_sample_weights=weights))

# ---- convolutions

add("Conv1d", lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), (2, 4, 11))
add("Conv1d.circular", lambda: nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), (2, 2, 6))
add("Conv2d", lambda: nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0)), (2, 3, 7, 6))
add("Conv2d.groups", lambda: nn.Conv2d(4, 6, 3, padding=2, dilation=2, groups=2, bias=False), (1, 4, 6, 5))
add("Conv2d.depthwise", lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4), (2, 4, 5, 6))
for mode in ("reflect", "replicate", "circular"):
    add(f"Conv2d.{mode}", lambda mode=mode: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode), (1, 2, 5, 5))
add("Conv3d", lambda: nn.Conv3d(2, 3, (2, 3, 3), stride=(2, 1, 2), padding=(1, 1, 0)), (2, 2, 5, 4, 5))
add("Conv3d.groups", lambda: nn.Conv3d(4, 2, 2, dilation=2, groups=2, bias=False), (1, 4, 4, 5, 4))
add("Conv3d.circular", lambda: nn.Conv3d(2, 2, 3, padding=(1, 1, 2), padding_mode="circular"), (1, 2, 3, 3, 4))
add("ConvTranspose1d", lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (2, 4, 5))
add("ConvTranspose2d", lambda: nn.ConvTranspose2d(3, 4, (3, 2), stride=2, padding=1, output_padding=1), (1, 3, 4, 3))
add("ConvTranspose2d.groups", lambda: nn.ConvTranspose2d(4, 2, 3, dilation=2, groups=2, bias=False), (1, 4, 4, 3))
add("ConvTranspose3d", lambda: nn.ConvTranspose3d(4, 2, (3, 2, 3), stride=2, padding=1, output_padding=(1, 0, 1),
                                                  groups=2), (1, 4, 3, 4, 3))

# ---- normalisation

add("LayerNorm", lambda: nn.LayerNorm((3, 5)), (2, 4, 3, 5))
add("LayerNorm.plain", lambda: nn.LayerNorm(6, eps=1e-3, elementwise_affine=False), (4, 6))
add("RMSNorm", lambda: RMSNorm(6), (2, 4, 6))
add("RMSNorm.eps", lambda: RMSNorm(2, 3, eps=0.1), (4, 2, 3))
add("GroupNorm", lambda: nn.GroupNorm(2, 6), (2, 6, 4, 3))
for axes in (1, 2, 3):
    size = (4, 2, 2)[:axes]
    for norm in ("BatchNorm", "InstanceNorm"):
        of = getattr(nn, f"{norm}{axes}d")
        running = dict(affine=True, track_running_stats=True)
        add(f"{norm}{axes}d", lambda of=of: of(3, **running), (2, 3) + size)
        add(f"{norm}{axes}d.eval", lambda of=of: of(3, **running), (2, 3) + size, train=False)
add("BatchNorm1d.rows", lambda: nn.BatchNorm1d(5, momentum=None), (6, 5))
add("BatchNorm2d.untracked", lambda: nn.BatchNorm2d(3, track_running_stats=False), (4, 3, 2, 5), train=False)
add("InstanceNorm2d.plain", lambda: nn.InstanceNorm2d(3), (2, 3, 4, 5))
add("InstanceNorm", lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 5))
add("LocalResponseNorm", lambda: nn.LocalResponseNorm(3, alpha=0.3, beta=0.6, k=1.5), (2, 5, 4))
add("LocalResponseNorm.even", lambda: nn.LocalResponseNorm(2, alpha=0.5), (2, 4, 3, 2))
add("LocalResponseNorm.defaults", lambda: nn.LocalResponseNorm(5), (1, 3, 2, 2, 2))

# ---- attention and recurrence

add("MultiheadAttention", lambda: nn.MultiheadAttention(4, 2), (5, 3, 4), (7, 3, 4), (7, 3, 4),
    call=lambda m, q, k, v: m(q, k, v, need_weights=False))
add("MultiheadAttention.itself", lambda: nn.MultiheadAttention(4, 2, bias=False, batch_first=True), (3, 5, 4),
    call=lambda m, x: m(x, x, x, need_weights=False))
add("MultiheadAttention.widths", lambda: nn.MultiheadAttention(4, 2, kdim=5, vdim=6, batch_first=True), (2, 4, 4),
    (2, 3, 5), (2, 3, 6), call=lambda m, q, k, v: m(q, k, v, need_weights=False))
add("MultiheadAttention.causal", lambda: nn.MultiheadAttention(4, 2, batch_first=True), (3, 5, 4),
    call=lambda m, x: m(x, x, x, attn_mask=torch.ones(5, 5).triu(1).bool(), need_weights=False))
add("MultiheadAttention.masks", lambda: nn.MultiheadAttention(4, 2, batch_first=True), (2, 4, 4), (2, 3, 4), (4, 3),
    all_of([True, True, False], [True, False, True]),
    call=lambda m, q, k, mask, keys: m(q, k, k, attn_mask=mask, key_padding_mask=~keys))
add("MultiheadAttention.keys", lambda: nn.MultiheadAttention(4, 2), (4, 2, 4), all_of([True] * 3 + [False], [True] * 4),
    call=lambda m, x, keys: m(x, x, x, key_padding_mask=~keys, need_weights=False))
for kind in ("RNN", "GRU", "LSTM"):
    of, cell = getattr(nn, kind), getattr(nn, f"{kind}Cell")
    states = 2 if kind == "LSTM" else 1

    def call(m, x, *h):
        return m(x, h if len(h) > 1 else h[0] if h else None)

    add(f"{kind}Cell", lambda cell=cell: cell(3, 4), (2, 3), *[(2, 4)] * states, call=call)
    add(f"{kind}Cell.without_bias", lambda cell=cell: cell(3, 4, bias=False), (2, 3))
    add(kind, lambda of=of: of(3, 4), (5, 2, 3), *[(1, 2, 4)] * states, call=call)
    add(f"{kind}.deep", lambda of=of: of(3, 4, num_layers=2, batch_first=True, bidirectional=True), (2, 4, 3),
        *[(4, 2, 4)] * states, call=call)
    add(f"{kind}.without_bias", lambda of=of: of(3, 4, num_layers=2, bias=False), (3, 2, 3))
add("RNN.relu", lambda: nn.RNN(3, 4, nonlinearity="relu", bidirectional=True), (3, 2, 3))
add("RNNCell.relu", lambda: nn.RNNCell(3, 4, nonlinearity="relu"), (2, 3), (2, 4))


def layer(of, **more):
    return of(4, 2, dim_feedforward=6, dropout=0, **more)


CAUSAL = torch.full((4, 4), float("-inf")).triu(1)
add("TransformerEncoderLayer", lambda: layer(nn.TransformerEncoderLayer), (4, 2, 4))
add("TransformerEncoderLayer.norm_first",
    lambda: layer(nn.TransformerEncoderLayer, activation="gelu", batch_first=True, norm_first=True), (2, 4, 4),
    call=lambda m, x: m(x, src_mask=CAUSAL.double()))
add("TransformerDecoderLayer", lambda: layer(nn.TransformerDecoderLayer), (4, 2, 4), (3, 2, 4),
    call=lambda m, x, memory: m(x, memory, tgt_mask=CAUSAL.double()))
add("TransformerDecoderLayer.norm_first",
    lambda: layer(nn.TransformerDecoderLayer, activation="gelu", batch_first=True, norm_first=True), (2, 4, 4),
    (2, 3, 4))
add("TransformerEncoder", lambda: nn.TransformerEncoder(layer(nn.TransformerEncoderLayer), 2), (4, 2, 4))
add("TransformerEncoder.norm",
    lambda: nn.TransformerEncoder(layer(nn.TransformerEncoderLayer, norm_first=True), 2, nn.LayerNorm(4)), (4, 2, 4))
add("TransformerDecoder",
    lambda: nn.TransformerDecoder(layer(nn.TransformerDecoderLayer), 2, nn.LayerNorm(4)), (4, 2, 4), (3, 2, 4))
add("Transformer", lambda: nn.Transformer(4, 2, 1, 2, dim_feedforward=6, dropout=0, batch_first=True), (2, 3, 4),
    (2, 4, 4), call=lambda m, source, target: m(source, target, tgt_mask=CAUSAL.double()))

# ---- activations

PLAIN = ("ReLU", "GELU", "SiLU", "Mish", "Tanh", "Sigmoid", "ReLU6", "SELU", "Hardswish", "Hardsigmoid", "LogSigmoid",
         "Softsign", "Tanhshrink", "Identity")
for kind in PLAIN + ("LeakyReLU", "ELU", "CELU", "Hardshrink", "Softshrink", "Softplus", "Hardtanh"):
    add(kind, getattr(nn, kind), (3, 7))
add("LeakyReLU.slope", lambda: nn.LeakyReLU(0.3), (3, 7))
add("ELU.alpha", lambda: nn.ELU(0.7), (3, 7))
add("CELU.alpha", lambda: nn.CELU(0.7), (3, 7))
add("Softplus.beta", lambda: nn.Softplus(2, 1), (3, 7))
add("Hardtanh.range", lambda: nn.Hardtanh(-0.5, 0.25), (3, 7))
add("GELUTanh", lambda: nn.GELU(approximate="tanh"), (3, 7))
add("PReLU", nn.PReLU, (3, 7))
add("PReLU.channels", lambda: nn.PReLU(4), (2, 4, 3))
add("GLU", nn.GLU, (3, 8))
add("GLU.axis", lambda: nn.GLU(1), (2, 4, 3))
add("Softmax", lambda: nn.Softmax(1), (2, 4, 3))
add("Softmin", lambda: nn.Softmin(-1), (2, 4, 3))
add("LogSoftmax", lambda: nn.LogSoftmax(-1), (2, 4, 3))
add("Softmax2d", nn.Softmax2d, (2, 3, 4, 2))
add("Softmax2d.unbatched", nn.Softmax2d, (3, 4, 2))
add("Threshold", lambda: nn.Threshold(0.25, -7), (3, 7))
add("RReLU", nn.RReLU, (3, 7), train=False)
add("RReLU.range", lambda: nn.RReLU(0.2, 0.7), (3, 7), train=False)

# ---- pooling, padding, sizes

add("MaxPool1d", lambda: nn.MaxPool1d(3, 2, 1), (2, 3, 8))
add("MaxPool2d", lambda: nn.MaxPool2d((3, 2), 2, padding=(1, 0), ceil_mode=True), (2, 3, 7, 5))
add("MaxPool2d.dilated", lambda: nn.MaxPool2d(2, 1, dilation=2), (1, 2, 5, 6))
add("MaxPool3d", lambda: nn.MaxPool3d((2, 3, 2), (2, 1, 2), padding=(1, 1, 0)), (2, 2, 4, 4, 5))
add("AvgPool1d", lambda: nn.AvgPool1d(3, 2, 1), (2, 3, 8))
add("AvgPool2d", lambda: nn.AvgPool2d((3, 2), 2, padding=(1, 0), count_include_pad=False), (2, 3, 7, 5))
add("AvgPool2d.divisor", lambda: nn.AvgPool2d(2, ceil_mode=True, divisor_override=3), (1, 2, 5, 5))
add("AvgPool3d", lambda: nn.AvgPool3d((2, 3, 2), (2, 1, 2), padding=(1, 1, 0), count_include_pad=False),
    (2, 2, 4, 4, 5))
add("AdaptiveAvgPool1d", lambda: nn.AdaptiveAvgPool1d(3), (2, 3, 7))
add("AdaptiveAvgPool2d", lambda: nn.AdaptiveAvgPool2d((3, 2)), (2, 3, 7, 5))
add("AdaptiveMaxPool1d", lambda: nn.AdaptiveMaxPool1d(3), (2, 3, 7))
add("AdaptiveMaxPool2d", lambda: nn.AdaptiveMaxPool2d((3, 2)), (2, 3, 7, 5))
add("AdaptiveAvgPool3d", lambda: nn.AdaptiveAvgPool3d((3, 2, 4)), (2, 2, 5, 3, 4))
add("AdaptiveAvgPool3d.unbatched", lambda: nn.AdaptiveAvgPool3d(2), (2, 3, 5, 4))
add("AdaptiveMaxPool3d", lambda: nn.AdaptiveMaxPool3d((3, 2, 4)), (2, 2, 5, 3, 4))
add("AdaptiveMaxPool3d.unbatched", lambda: nn.AdaptiveMaxPool3d(2), (2, 3, 5, 4))
add("LPPool1d", lambda: nn.LPPool1d(2, 3, 2), (2, 3, 8))
add("LPPool1d.ceil", lambda: nn.LPPool1d(4, 3, 2, ceil_mode=True), (2, 3, 8))
add("LPPool1d.odd", lambda: nn.LPPool1d(3, 2), positive(3, 7))
add("LPPool2d", lambda: nn.LPPool2d(2, (3, 2), 2), (2, 3, 7, 5))
add("LPPool2d.ceil", lambda: nn.LPPool2d(1.5, (2, 3), (3, 2), ceil_mode=True), positive(1, 2, 6, 6))
add("LPPool3d", lambda: newest("LPPool3d")(2, (2, 3, 2), (2, 1, 2)), (2, 2, 4, 4, 5))
add("LPPool3d.ceil", lambda: newest("LPPool3d")(4, 2, ceil_mode=True), (1, 2, 3, 4, 5))
add("ZeroPad1d", lambda: newest("ZeroPad1d")((1, 2)), (1, 2, 4))
add("ZeroPad2d", lambda: nn.ZeroPad2d((1, 2, 0, 3)), (1, 2, 3, 4))
add("ZeroPad3d", lambda: newest("ZeroPad3d")((1, 2, 0, 3, 1, 0)), (1, 2, 3, 2, 2))
for axes in (1, 2, 3):
    def pad(kind, axes=axes):
        return getattr(nn, f"{kind}{axes}d")

    space, sides = (4, 3, 3)[:axes], (1, 2, 0, 3, 1, 0)[: 2 * axes]
    add(f"ConstantPad{axes}d", lambda pad=pad, sides=sides: pad("ConstantPad")(sides, 2), (1, 2) + space)
    add(f"ReflectionPad{axes}d", lambda pad=pad: pad("ReflectionPad")(2), (1, 2) + space)
    add(f"ReplicationPad{axes}d", lambda pad=pad, sides=sides: pad("ReplicationPad")(sides), (1, 2) + space)
    ends = sides[:2] + (1, 0, 0, 1)[: 2 * axes - 2]
    add(f"CircularPad{axes}d", nn.Identity, (1, 2) + space,
        call=lambda m, x, ends=ends: functional.pad(m(x), ends, mode="circular"))
add("PixelShuffle", lambda: nn.PixelShuffle(2), (2, 8, 3, 2))
add("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), (2, 2, 4, 6))


def shuffled(module, x):
    """By moving axes: PyTorch 1.13 has no gradient of its ChannelShuffle."""
    y = x.unflatten(1, (module.groups, -1)).transpose(1, 2).flatten(1, 2)
    assert (y == module(x.detach())).all()
    return y


add("ChannelShuffle", lambda: nn.ChannelShuffle(3), (2, 6, 3, 2), call=shuffled)
add("ChannelShuffle.sequences", lambda: nn.ChannelShuffle(2), (2, 4, 3), call=shuffled)
add("Unfold", lambda: nn.Unfold((2, 3), dilation=2, padding=1, stride=(2, 1)), (2, 2, 5, 6))
add("Fold", lambda: nn.Fold((4, 5), (2, 3), padding=1), (1, 12, 25))
add("Flatten", nn.Flatten, (2, 3, 4))
add("Unflatten", lambda: nn.Unflatten(1, (2, 3)), (2, 6, 4))
add("Upsample", lambda: nn.Upsample(scale_factor=2), (2, 3, 3, 4))
add("Upsample.size", lambda: nn.Upsample(size=(5, 7)), (1, 2, 3, 4))
add("Upsample.less", lambda: nn.Upsample(scale_factor=0.6), (1, 2, 7, 9))
add("Upsample.linear", lambda: nn.Upsample(scale_factor=2.5, mode="linear"), (2, 3, 5))
add("Upsample.bilinear", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 3, 4))
add("Upsample.corners", lambda: nn.Upsample(size=(5, 7), mode="bilinear", align_corners=True), (1, 2, 3, 4))
add("Upsample.trilinear", lambda: nn.Upsample(size=(4, 3, 5), mode="trilinear"), (1, 2, 2, 3, 3))

# ---- dropout, which does nothing in evaluation, and containers

for kind, rank in (("Dropout", 3), ("Dropout1d", 3), ("Dropout2d", 4), ("Dropout3d", 5), ("AlphaDropout", 3),
                   ("FeatureAlphaDropout", 4)):
    add(kind, lambda kind=kind: getattr(nn, kind)(0.4), (2, 3, 4, 2, 2)[:rank], train=False)
add("Sequential", lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3), nn.GELU()), (2, 5))
add("Sequential.images",
    lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(8, 3)), (3, 1, 6, 6))
add("Residual", lambda: Residual(nn.Sequential(nn.Linear(4, 4), nn.Tanh())), (3, 4))
add("ModuleList", lambda: nn.ModuleList([nn.Linear(3, 4), nn.Linear(4, 3)]), (2, 3), call=lambda m, x: m[1](m[0](x)))
add("ModuleDict", lambda: nn.ModuleDict({"up": nn.Linear(3, 4), "down": nn.Linear(4, 3)}), (2, 3),
    call=lambda m, x: m["down"](m["up"](x)))
add("ParameterList", lambda: nn.ParameterList([nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(4))]), (2, 3),
    call=lambda m, x: x @ m[0] + m[1])
add("ParameterDict", lambda: nn.ParameterDict({"scale": nn.Parameter(torch.randn(3)),
                                               "bias": nn.Parameter(torch.randn(2, 1))}), (2, 3),
    call=lambda m, x: x * m["scale"] + m["bias"])

# ---- how near two tensors are

add("CosineSimilarity", nn.CosineSimilarity, (3, 5), (3, 5))
add("CosineSimilarity.axis", lambda: nn.CosineSimilarity(-1), (2, 4, 3), (4, 3))
add("CosineSimilarity.broadcast", nn.CosineSimilarity, (3, 4, 5), (5,))
# Of zeros: other rows shorter than eps have a gradient of PyTorch's own, as if their length were kept.
add("CosineSimilarity.zeros", lambda: nn.CosineSimilarity(1, eps=0.25),
    all_of([0.0] * 3, [1.5, -0.5, 2.0], [0.0] * 3), all_of([1.0, 2.0, -1.0], [0.5, 1.0, 1.0], [0.0] * 3))
add("PairwiseDistance", nn.PairwiseDistance, (4, 5), (4, 5))
add("PairwiseDistance.keepdim", lambda: nn.PairwiseDistance(1, keepdim=True), (2, 4, 5), (2, 4, 5))
add("PairwiseDistance.cubes", lambda: nn.PairwiseDistance(3, eps=0.1), (4, 5), (5,))
add("PairwiseDistance.largest", lambda: nn.PairwiseDistance(float("inf")), (4, 5), (4, 5))

# ---- losses

for kind in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
    add(kind, getattr(nn, kind), (3, 4), (3, 4))
add("MSELoss.sum", lambda: nn.MSELoss(reduction="sum"), (3, 4), (3, 4))
add("SmoothL1Loss.beta", lambda: nn.SmoothL1Loss(reduction="none", beta=0.5), (3, 4), (3, 4))
add("HuberLoss.delta", lambda: nn.HuberLoss(delta=0.5), (3, 4), (3, 4))
add("BCELoss", nn.BCELoss, probabilities(3, 4), probabilities(3, 4))
add("BCEWithLogitsLoss", nn.BCEWithLogitsLoss, (3, 4), probabilities(3, 4))
add("KLDivLoss", lambda: nn.KLDivLoss(reduction="batchmean"), lambda: distributions(3, 4)().log(), distributions(3, 4))
add("CrossEntropyLoss", nn.CrossEntropyLoss, (3, 5), integers(5, 3))
add("CrossEntropyLoss.smoothing", lambda: nn.CrossEntropyLoss(ignore_index=2, label_smoothing=0.1), (2, 5, 4),
    integers(5, 2, 4))
add("CrossEntropyLoss.soft", lambda: nn.CrossEntropyLoss(reduction="sum"), (3, 5), distributions(3, 5))
add("NLLLoss", nn.NLLLoss, lambda: distributions(3, 5)().log(), integers(5, 3))
add("CosineEmbeddingLoss", lambda: nn.CosineEmbeddingLoss(margin=0.2), (4, 5), (4, 5), signs(4))
add("HingeEmbeddingLoss", lambda: nn.HingeEmbeddingLoss(margin=0.8), (4, 5), signs(4, 5))
add("MarginRankingLoss", lambda: nn.MarginRankingLoss(margin=0.2), (6,), (6,), signs(6))
add("TripletMarginLoss", nn.TripletMarginLoss, (4, 5), (4, 5), (4, 5))

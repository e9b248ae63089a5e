"""The benchmarks of operators.cpp, programs.cpp and training_steps.cpp as PyTorch's users write them: what each computes."""
import functools
import re

import torch
import torch.nn.functional as F

UNARY = {"neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
         "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "gelu": F.gelu, "silu": F.silu}
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
          "minimum": torch.minimum, "equal": torch.eq}
REDUCTIONS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin, "argmax": torch.argmax,
              "argmin": torch.argmin, "var": torch.var,
              "prod": torch.prod, "logsumexp": lambda x, dim=None: torch.logsumexp(x, tuple(range(x.dim())) if dim is None else dim)}
ADAM = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}


def same(function):
    return function


def has_gradient(benchmark):
    return benchmark.kernel == "cross_entropy" and benchmark.name.startswith("training")


def operation(benchmark, change=same):
    """A function of the inputs that returns the benchmark's outputs, or None where there is no counterpart. `change`
    (torch.compile, say) is applied to it, or to that part of it which its users would give to it."""
    if benchmark.kernel == "matmul_cublaslt":
        return matmul_in_mode(benchmark.name, change)
    if has_gradient(benchmark):
        return with_gradient(change(F.cross_entropy))
    plain = plain_operation(benchmark)
    return plain and change(plain)


def plain_operation(benchmark):
    kernel, name = benchmark.kernel, benchmark.name
    if kernel in UNARY:
        return lambda x: (UNARY[kernel](x),)
    if kernel in BINARY:
        return lambda a, b: (BINARY[kernel](a, b),)
    if kernel in REDUCTIONS:
        axis = {"rows": {"dim": 1}, "columns": {"dim": 0}, "all": {}}[name.split("_")[0]]
        return lambda x: (REDUCTIONS[kernel](x, **axis),)
    if kernel in ("softmax", "log_softmax"):
        return lambda x: (getattr(torch, kernel)(x, dim=-1),)
    if kernel in ("softmax_grad", "log_softmax_grad"):
        backward = torch.ops.aten._softmax_backward_data if kernel == "softmax_grad" \
            else torch.ops.aten._log_softmax_backward_data
        return lambda dy, y: (backward(dy, y, -1, y.dtype),)
    if kernel == "matmul":
        return matmul(name)
    if kernel == "copy":
        if not name.startswith("permute"):
            return lambda x: (x.clone(),)
        order = re.match(r"permute_([0-9]+)_", name)
        axes = [int(axis) for axis in order.group(1)] if order else [1, 0]
        return lambda x: (x.permute(axes).contiguous(),)
    if kernel == "cast":
        return lambda x: (x.to(torch.float16),)
    if kernel == "graph":
        return lambda x: (chain_of(int(name.split("_")[-1]), x),)
    if kernel in FORECASTS:
        return FORECASTS[kernel]
    if kernel == "fused_chain":
        return lambda a, b, c: (F.gelu(a + b) * c,)
    return None


def chain_of(length, x):
    for _ in range(length):
        x = x + 1
    return x


def matmul(name):
    linear = re.match(r"linear(_[a-z]+)?_[0-9]", name)
    if linear:
        after = {None: torch.relu, "_relu": torch.relu, "_gelu": F.gelu, "_none": lambda y: y}[linear.group(1)]
        return lambda x, weight, *bias: (after(F.linear(x, weight, *bias)),)
    transposes = re.match(r"([nt])([nt])_", name)
    a_is, b_is = transposes.groups() if transposes else "nn"
    return lambda a, b: (torch.matmul(a.t() if a_is == "t" else a, b.t() if b_is == "t" else b),)


def matmul_in_mode(name, change):
    """strict_… or tf32_…, then as for matmul; the mode stays outside of what `change` changes."""
    mode, product = name.split("_", 1)
    call = change(matmul(product))

    def with_mode(*x):
        torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
        try:
            return call(*x)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
    return with_mode


def roll_out(first, weight, bias_ih, bias_hh, steps=10):
    """The states of gated recurrent units, [steps, members, batch, hidden], that run on by themselves."""
    states, h = [], first
    for _ in range(steps):
        x_r, x_z, x_n = bias_ih[:, None].chunk(3, dim=-1)
        a_r, a_z, a_n = torch.baddbmm(bias_hh[:, None], h, weight).chunk(3, dim=-1)
        z, n = torch.sigmoid(x_z + a_z), torch.tanh(x_n + torch.sigmoid(x_r + a_r) * a_n)
        h = n + z * (h - n)
        states.append(h)
    return torch.stack(states)


def compress(residual, rank):
    """Singular values first; by the same algorithm, where it is a rival and not the judge."""
    if residual.dtype == torch.float64:
        return (torch.linalg.svdvals(residual)[:rank],)
    u, s, v = torch.svd_lowrank(residual, q=rank + 8, niter=2)
    return s[:rank], u[:, :rank] * s[:rank], v[:, :rank]


def forecast_chain(left, right, weights, share, states, weight, bias, start, *units):
    """Corrected weights, and the states that a state of the training rolls out to."""
    encoded = torch.relu(F.linear(states, weight, bias))
    first = torch.tanh(F.linear(encoded, start)).view(len(states), len(units[0]), -1).transpose(0, 1)
    residual = left @ right.T
    if residual.dtype != torch.float64:
        _, scaled, v = compress(residual, left.shape[1])
        residual = scaled @ v.T
    return weights + share * residual, roll_out(first, *units)


FORECASTS = {"encode_state": lambda x, weight, bias: (torch.relu(F.linear(x, weight, bias)),),
             "gru_rollout": lambda *x: (roll_out(*x),),
             "compress_residuals": lambda left, right: compress(left @ right.T, left.shape[1]),
             "apply_corrections": lambda w, left, right, share: (torch.addmm(w, left * share, right.T),),
             "corrections_in_turn": lambda left, right, w, share: tuple(torch.addmm(w[i], left[i] * share, right[i].T)
                                                                        for i in range(len(w))),
             "forecast_chain": forecast_chain}


def with_gradient(loss_of):
    def training(logits, labels):
        with torch.enable_grad():
            logits = logits.detach().requires_grad_(True)
            loss = loss_of(logits, labels)
            loss.backward()
        return loss.detach(), logits.grad
    return training


class AdamStep:
    """torch.optim.Adam over the rows of the inputs (values, gradients)."""

    def __init__(self, values, gradients, change=same, **options):
        self.parameters = [row.clone().requires_grad_(True) for row in values]
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient.clone()
        self.step = change(torch.optim.Adam(self.parameters, **ADAM, **options).step)

    def __call__(self, *_):
        self.step()
        return self.parameters[0].detach(), self.parameters[-1].detach()


def mlp(*parameters):
    """Of weight and bias of each layer."""
    modules = []
    for weight in parameters[::2]:
        modules += [torch.nn.Linear(weight.shape[1], weight.shape[0]), torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1])


def cnn(conv1, _gain1, _bias1, conv2, _gain2, _bias2, linear1, _linear_bias1, linear2, _linear_bias2):
    nn = torch.nn

    def stage(weight):
        out, into = weight.shape[:2]
        return nn.Conv2d(into, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*stage(conv1), *stage(conv2), nn.Flatten(), nn.Linear(linear1.shape[1], linear1.shape[0]), nn.ReLU(),
                         nn.Linear(linear2.shape[1], linear2.shape[0]))


class SelfAttention(torch.nn.Module):
    """Causal, with heads of 64."""

    def __init__(self, width):
        super().__init__()
        self.projected, self.out, self.heads = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width), width // 64

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.projected(x).chunk(3, dim=-1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class TransformerLayer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = SelfAttention(width)
        self.linear1, self.linear2 = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Transformer(torch.nn.Module):
    """A decoder whose logits are products with the characters' vectors."""

    def __init__(self, tokens, positions, *layers_and_norm):
        super().__init__()
        width, of_layer = tokens.shape[1], 12
        self.tokens, self.positions = (torch.nn.Parameter(torch.empty(x.shape)) for x in (tokens, positions))
        self.layers = torch.nn.Sequential(*[TransformerLayer(width) for _ in range(len(layers_and_norm) // of_layer)])
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.norm(self.layers(F.embedding(tokens, self.tokens) + self.positions))
        return F.linear(x.flatten(0, 1), self.tokens)


class CharGru(torch.nn.Module):
    def __init__(self, tokens, *_):
        super().__init__()
        self.tokens = torch.nn.Embedding(*tokens.shape)
        self.gru = torch.nn.GRU(tokens.shape[1], tokens.shape[1], batch_first=True)
        self.head = torch.nn.Linear(tokens.shape[1], tokens.shape[0])

    def forward(self, tokens):
        return self.head(self.gru(self.tokens(tokens))[0].flatten(0, 1))


NETWORKS = {"mlp_step": mlp, "cnn_step": cnn, "transformer_step": Transformer, "gru_step": CharGru}


class TrainingStep:
    """A training step of a network: the batch, its labels, then the parameters to start from, in the network's order."""

    def __init__(self, kernel, batch, labels, *parameters, change=same, **options):
        model = NETWORKS[kernel](*parameters).to(device=parameters[0].device, dtype=parameters[0].dtype)
        with torch.no_grad():
            for own, first in zip(model.parameters(), parameters, strict=True):
                if own.shape != first.shape:
                    raise ValueError(f"{kernel}: a parameter of {tuple(first.shape)} where PyTorch has {tuple(own.shape)}")
                own.copy_(first)
        self.loss_of = change(lambda x, y: F.cross_entropy(model(x), y))
        self.optimizer = torch.optim.Adam(model.parameters(), **ADAM, **options)

    def __call__(self, batch, labels, *_):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.enable_grad():
            loss = self.loss_of(batch, labels)
            loss.backward()
        self.optimizer.step()
        return (loss.detach(),)


STATEFUL = {"adam": AdamStep, **{kernel: functools.partial(TrainingStep, kernel) for kernel in NETWORKS}}

"""oneDNN as a rival beside random draws on the CPU, through its C interface: products, layers, softmax, norms, activations, layers
of GRU and LSTM, forward. Convolutions, pooling and interpolation aren't asked of it here: PyTorch computes convolutions by its own
copy of oneDNN, which brings images into oneDNN's layouts and back.
"""
import ctypes
import glob
import os
import sys

import numpy as np

# Numbers of dnnl_types.h, version 3.
F32, ANY_LAYOUT, INFERENCE, TRAINING, LEFT_TO_RIGHT, ARGUMENT_LAYOUT = 3, 1, 96, 64, 1, 255
SCALE_AND_SHIFT = 2 | 4
SRC, SRC_1, SRC_2, DST, WEIGHTS, WEIGHTS_1, BIAS, MEAN, VARIANCE, SCALES, SHIFTS = 1, 2, 3, 17, 33, 34, 41, 49, 50, 51, 52
SOFTMAX = {"softmax": 0x30000, "log_softmax": 0x30001}
ACTIVATIONS = {"relu": (0x20, 0, 0), "tanh": (0x21, 0, 0), "elu": (0x22, 1, 0), "softplus": (0x27, 1, 0),
               "hardsigmoid": (0x28, 1 / 6, 0.5), "sigmoid": (0x29, 0, 0), "exp": (0x2a, 0, 0), "gelu_tanh": (0x2b, 0, 0),
               "silu": (0x2c, 1, 0), "log": (0x2d, 0, 0), "relu6": (0x2e, 0, 6), "hardtanh": (0x2e, -1, 1), "gelu": (0x31, 0, 0),
               "mish": (0x33, 0, 0), "hardswish": (0x34, 1 / 6, 0.5), "leaky_relu": (0x20, 0.01, 0), "sqrt": (0x25, 0, 0)}


class Argument(ctypes.Structure):
    _fields_ = [("which", ctypes.c_int), ("memory", ctypes.c_void_p)]


def pointer(value=None):
    return ctypes.c_void_p(value)


class OneDnn:
    """calls() of a draw's views, or None where it has no such operator or not for such a layout."""

    def __init__(self, threads):
        found = glob.glob(os.path.join(sys.prefix, "lib", "libdnnl.so.3"))
        if not found:
            raise RuntimeError("no oneDNN in this Python's folder: install requirements-bench.txt, as ./dev bench does, or leave "
                               "onednn out of --against")
        # Its own functions first: PyTorch has an older oneDNN in this process.
        self.c = ctypes.CDLL(found[0], mode=os.RTLD_LOCAL | os.RTLD_DEEPBIND)
        ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)
        self.c.dnnl_version.restype = ctypes.POINTER(ctypes.c_int * 3)
        self.c.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
        self.version = ".".join(map(str, self.c.dnnl_version().contents))
        self.engine, self.stream, self.owned = pointer(), pointer(), []
        self.check(self.c.dnnl_engine_create(ctypes.byref(self.engine), 1, ctypes.c_size_t(0)))
        self.check(self.c.dnnl_stream_create(ctypes.byref(self.stream), self.engine, 1))

    @staticmethod
    def check(status):
        if status != 0:
            raise RuntimeError(f"oneDNN's status {status}")

    # ---- what calls are made of
    def made(self, kind, create, *arguments):
        """What a function of the library makes; it lives until the next draw's calls()."""
        made = pointer()
        self.check(getattr(self.c, f"dnnl_{create}")(ctypes.byref(made), *arguments))
        self.owned.append((kind, made))
        return made

    def release(self):
        for kind, one in reversed(self.owned):
            getattr(self.c, f"dnnl_{kind}_destroy")(one)
        self.owned = []

    def layout(self, shape, strides=None):
        """Dense, of strides in elements, or its own choice ("any")."""
        dims = (ctypes.c_int64 * 12)(*shape)
        if strides == "any":
            return self.made("memory_desc", "memory_desc_create_with_tag", len(shape), dims, F32, ANY_LAYOUT)
        strides = strides or [int(np.prod(shape[i + 1:], dtype=np.int64)) for i in range(len(shape))]
        return self.made("memory_desc", "memory_desc_create_with_strides", len(shape), dims, F32, (ctypes.c_int64 * 12)(*strides))

    def layout_of(self, x):
        return self.layout(x.shape, [s // x.itemsize for s in x.strides])

    def memory(self, layout, x=None):
        """Of an array, or of its own."""
        return self.made("memory", "memory_create", layout, self.engine, pointer(-1 if x is None else x.ctypes.data))

    def described(self, what, *arguments):
        return self.made("primitive_desc", f"{what}_primitive_desc_create", *arguments)

    def primitive(self, described):
        return self.made("primitive", "primitive_create", described)

    def bound(self, primitive, memories, result, kept):
        """A call on {which: memory}."""
        arguments = (Argument * len(memories))(*[Argument(which, memory.value) for which, memory in memories.items()])
        execute, stream, wait = self.c.dnnl_primitive_execute, self.stream, self.c.dnnl_stream_wait

        def run(_kept=(kept, memories)):
            execute(primitive, stream, len(arguments), arguments)
            wait(stream)
            return result
        run()
        return run

    def packed(self, described, which, x):
        """An array in the layout that a primitive wants, brought there once."""
        wanted = pointer(self.c.dnnl_primitive_desc_query_md(described, ARGUMENT_LAYOUT, which))
        source, target = self.memory(self.layout_of(x), x), self.memory(wanted)
        reorder = self.described("reorder", self.layout_of(x), self.engine, wanted, self.engine, None)
        self.bound(self.primitive(reorder), {SRC: source, DST: target}, None, x)
        return target

    # ---- operators
    def calls(self, draw, sets):
        self.release()
        kernel = draw.kernel
        if draw.wanted:
            return None
        if kernel == "matmul":
            return self.products(draw, sets)
        if not all(x.flags.c_contiguous for x in sets[0]):
            return None
        x, epsilon = sets[0][0], ctypes.c_float(1e-5)
        if kernel in ACTIVATIONS:
            algorithm, *parameters = ACTIVATIONS[kernel]
            flat = self.layout([x.size])
            described = self.described("eltwise_forward", self.engine, INFERENCE, algorithm, flat, flat,
                                       *map(ctypes.c_float, parameters), None)
            return self.each(sets, draw, described, {SRC: 0}, flat)
        layout = self.layout(x.shape)
        if kernel in SOFTMAX:
            described = self.described("softmax_forward", self.engine, INFERENCE, SOFTMAX[kernel], layout, layout, x.ndim - 1, None)
            return self.each(sets, draw, described, {SRC: 0}, layout)
        if kernel == "layer_norm":
            described = self.described("layer_normalization_forward", self.engine, INFERENCE, layout, layout, None, epsilon,
                                       SCALE_AND_SHIFT, None)
            return self.each(sets, draw, described, {SRC: 0, SCALES: 1, SHIFTS: 2}, layout)
        if kernel == "batch_norm":
            described = self.described("batch_normalization_forward", self.engine, TRAINING, layout, layout, epsilon,
                                       SCALE_AND_SHIFT, None)
            return self.each(sets, draw, described, {SRC: 0, SCALES: 3, SHIFTS: 4}, layout, (MEAN, VARIANCE), x.shape[1:2])
        return self.recurrent(draw, sets) if kernel in ("gru", "lstm") else None

    def each(self, sets, draw, described, places, to, others=(), shape_of_others=()):
        """Calls of a primitive whose arguments are inputs of the draw ({which: place}), its result and `others` of a shape."""
        primitive, calls = self.primitive(described), []
        for x in sets:
            y, more = np.empty(draw.output_shape, np.float32), [np.empty(shape_of_others, np.float32) for _ in others]
            memories = {which: self.memory(self.layout([x[place].size]) if which != SRC else to, x[place])
                        for which, place in places.items()}
            memories[DST] = self.memory(to, y)
            memories.update({which: self.memory(self.layout(shape_of_others), m) for which, m in zip(others, more)})
            calls.append(self.bound(primitive, memories, y, (x, more)))
        return calls

    def products(self, draw, sets):
        flags = [draw.options.get("transpose_a", False), draw.options.get("transpose_b", False)]
        sets = [[np.swapaxes(m, -1, -2) if flag else m for m, flag in zip(x, flags)] + list(x[2:]) for x in sets]
        a, b, *bias = sets[0]
        to, of_bias = self.layout(draw.output_shape), self.layout([1, bias[0].size]) if bias else None
        attributes = None
        if "activation" in draw.options:
            algorithm, alpha, beta = ACTIVATIONS[draw.options["activation"]]
            attributes, after = self.made("primitive_attr", "primitive_attr_create"), self.made("post_ops", "post_ops_create")
            self.check(self.c.dnnl_post_ops_append_eltwise(after, algorithm, ctypes.c_float(alpha), ctypes.c_float(beta)))
            self.check(self.c.dnnl_primitive_attr_set_post_ops(attributes, after))
        primitive = self.primitive(self.described("matmul", self.engine, self.layout_of(a), self.layout_of(b), of_bias, to,
                                                  attributes))
        calls = []
        for a, b, *bias in sets:
            y = np.empty(draw.output_shape, np.float32)
            memories = {SRC: self.memory(self.layout_of(a), a), WEIGHTS: self.memory(self.layout_of(b), b), DST: self.memory(to, y)}
            if bias:
                memories[BIAS] = self.memory(of_bias, bias[0])
            calls.append(self.bound(primitive, memories, y, (a, b, bias)))
        return calls

    def recurrent(self, draw, sets):
        """Weights lie as it wants them, beforehand: [1, 1, inputs, gates, hidden], GRU's gates z, r, n."""
        states, order = (1, (1, 0, 2)) if draw.kernel == "gru" else (2, (0, 1, 2, 3))
        gates = len(order)
        steps, batch, inputs = sets[0][0].shape
        hidden = draw.output_shape[-1]

        def ordered(w):
            return np.stack([w.reshape(gates, hidden, *w.shape[1:])[i] for i in order])
        w_ih, w_hh, b_ih, b_hh = map(ordered, sets[0][1 + states:])
        to_layers = [np.ascontiguousarray(w.transpose(2, 0, 1)[None, None]) for w in (w_ih, w_hh)]
        bias = np.concatenate([b_ih[:2] + b_hh[:2], b_ih[2:], b_hh[2:]]) if draw.kernel == "gru" else b_ih + b_hh
        bias = np.ascontiguousarray(bias[None, None])
        of_x, of_state, of_y = (self.layout(shape) for shape in ([steps, batch, inputs], [1, 1, batch, hidden],
                                                                  [steps, batch, hidden]))
        of_weights = [self.layout(w.shape, "any") for w in to_layers]
        missing = [None, None] if draw.kernel == "lstm" else []  # peepholes, projection
        what = "lbr_gru_forward" if draw.kernel == "gru" else "lstm_forward"
        described = self.described(what, self.engine, INFERENCE, LEFT_TO_RIGHT, of_x, *[of_state] * states, *of_weights, *missing,
                                   self.layout(bias.shape), of_y, *[None] * states, 0, None)
        weights = [self.packed(described, which, w) for which, w in zip((WEIGHTS, WEIGHTS_1), to_layers)]
        primitive, calls = self.primitive(described), []
        for x in sets:
            y = np.empty(draw.output_shape, np.float32)
            memories = {SRC: self.memory(of_x, x[0]), SRC_1: self.memory(of_state, x[1]), WEIGHTS: weights[0],
                        WEIGHTS_1: weights[1], BIAS: self.memory(self.layout(bias.shape), bias), DST: self.memory(of_y, y)}
            if states == 2:
                memories[SRC_2] = self.memory(of_state, x[2])
            calls.append(self.bound(primitive, memories, y, (x, bias)))
        return calls

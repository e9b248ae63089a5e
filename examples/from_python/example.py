#!/usr/bin/env python3
"""Ashlar's operators on NumPy's arrays, and on PyTorch's CUDA tensors where there are any:

    example.py build/lib/libashlar.so
"""
import sys

import numpy

from ashlar import Ashlar, AshlarError


def softmax(x):
    e = numpy.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def on_numpy(ashlar):
    random = numpy.random.default_rng(0)
    x = random.standard_normal((4, 5)).astype(numpy.float32)
    dy = random.standard_normal((4, 5)).astype(numpy.float32)

    # No copy on the way in, nor on the way out.
    seen = ashlar.tensor(x)
    assert seen.address == x.ctypes.data and seen.shape == x.shape
    y = ashlar.softmax(x, axis=-1)
    shown = numpy.from_dlpack(y)
    assert shown.ctypes.data == y.address
    assert numpy.allclose(shown, softmax(x), atol=1e-6)

    # Views, options, inputs that may be left out.
    w, b = random.standard_normal((3, 5)).astype(numpy.float32), numpy.ones(3, numpy.float32)
    product = ashlar.matmul(x, w, transpose_b=True, bias=b, activation="relu")
    assert numpy.allclose(numpy.from_dlpack(product), numpy.maximum(x @ w.T + b, 0), atol=1e-5)
    assert numpy.allclose(numpy.from_dlpack(ashlar.sum(x[:, ::2].T, axes=[0])), x[:, ::2].sum(axis=1), atol=1e-5)
    mask = (x > 0).astype(numpy.int64)
    assert (numpy.from_dlpack(ashlar.nonzero(mask)) == numpy.argwhere(mask)).all()

    # Gradients.
    dx, = ashlar.gradients("softmax", [x], [dy], axis=-1)
    s = softmax(x)
    assert numpy.allclose(numpy.from_dlpack(dx), s * (dy - (dy * s).sum(axis=-1, keepdims=True)), atol=1e-6)
    dx, dw = ashlar.gradients("matmul", [x, w], [numpy.ones((4, 3), numpy.float32)], transpose_b=True)
    assert numpy.allclose(numpy.from_dlpack(dw), numpy.ones((4, 3)).T @ x, atol=1e-5)

    # An error says what came, what was needed, and what to do.
    try:
        ashlar.add(x, b)
        sys.exit("shapes that don't fit were taken")
    except AshlarError as error:
        print(error)
    for wrong in (lambda: ashlar.softmax(x, axes=-1), lambda: ashlar.matmul(x, w, activation="sine"),
                  lambda: ashlar.affine(x, scale=2.0), lambda: ashlar.call("sofmtax", x), lambda: ashlar.relu(x, x)):
        try:
            wrong()
            sys.exit("a call that can't be was taken")
        except AshlarError as error:
            print(error)


def on_cuda(ashlar, torch):
    """The same memory as PyTorch's, on PyTorch's current stream."""
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            ashlar.use_torch_stream(torch)
            x = torch.randn(512, 1024, device="cuda").relu_()  # still being made while we go on
            assert ashlar.tensor(x).address == x.data_ptr()
            y = torch.from_dlpack(ashlar.softmax(x, axis=-1))
            dx, = ashlar.gradients("softmax", [x], [torch.ones_like(x)], axis=-1)
            assert torch.allclose(y, x.softmax(-1), atol=1e-6)
            assert torch.from_dlpack(dx).abs().max() < 1e-4
            x.mul_(2)
            assert torch.allclose(torch.from_dlpack(ashlar.relu(x.T)), x.T.relu())


if __name__ == "__main__":
    library = Ashlar(sys.argv[1])
    print(f"{len(library.operators)} operators on {', '.join(library.devices())}")
    on_numpy(library)
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None and torch.cuda.is_available():
        on_cuda(library, torch)
        print("and on PyTorch's CUDA tensors")
    elif "--cuda" in sys.argv:
        sys.exit("no PyTorch with a CUDA device")

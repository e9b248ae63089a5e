// Reverse-mode differentiation over the tape.
#pragma once

#include "autograd/var.h"

namespace ashlar {

struct BackwardOptions {
  /// dL/d(root), of the root's shape, dtype and device. May be left out when the root has one element: then 1.
  Tensor seed = {};
  /// Keeps the graph and its saved tensors, so that backward() can run over it again.
  bool retain_graph = false;
};

/// Adds dL/dv to v.grad() for every leaf v that requires a gradient and that `root` was computed from.
///
/// Operations run in reverse topological order of a depth-first walk, so the order of additions, and with it every
/// bit of the result, depends on the graph's structure only. Each operation is freed as soon as it has run, unless
/// `retain_graph`.
///
/// Throws AutogradError when the root requires no gradient, has several elements and no seed, was freed by an earlier
/// backward(), or when a saved tensor was overwritten; ShapeError, DTypeError or DeviceError on a seed that doesn't
/// fit. After an exception the gradients collected so far are incomplete: clear them and compute the loss again.
void backward(const Var& root, const BackwardOptions& options = {});

}  // namespace ashlar

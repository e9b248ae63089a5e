// Gradients as results, which may be differentiated again.
#pragma once

#include <optional>
#include <vector>

#include "autograd/var.h"

namespace ashlar {

struct GradOptions {
  /// Records the gradients' own computation, also inside of a NoGrad, so that they can be differentiated in their turn.
  bool create_graph = false;
  /// Keeps the graph and its saved tensors, so that it can be walked again; as `create_graph` where nothing is said.
  std::optional<bool> retain_graph = {};
  /// An input that no output depends on gets an undefined Var; without this it is an AutogradError.
  bool allow_unused = false;
};

/// Σ dL/d(output) · d(output)/d(input) for every input, as PyTorch's autograd.grad: one Var per input, of its shape,
/// dtype and device. `grad_outputs` are dL/d(output), of the outputs' shapes, dtypes and devices; an undefined Var, or
/// no list, stands for 1, for outputs of one element. Inputs may be leaves or computed; no leaf's grad() is touched.
/// Only operations between inputs and outputs run (and are freed, unless the graph is retained).
///
///   const Var slope = grad({loss}, {x}, {}, {.create_graph = true})[0];
///   backward(ad::sum(ad::mul(slope, slope)));  // d/dx |dloss/dx|²
///
/// The results require gradients with `create_graph` alone. Their graph keeps what it needs of the first one alive, and
/// goes when they do: no cycles.
///
/// Throws ValueError when there are no outputs or inputs, or not as many grad_outputs as outputs; AutogradError when an
/// output or input requires no gradient, an output of several elements has no grad_output, an input is unused, the
/// graph was freed, a saved tensor was overwritten, or, with `create_graph`, when an operation can't be differentiated
/// twice (it is named); ShapeError, DTypeError or DeviceError on a grad_output that doesn't fit.
std::vector<Var> grad(const std::vector<Var>& outputs, const std::vector<Var>& inputs,
                      const std::vector<Var>& grad_outputs = {}, const GradOptions& options = {});

}  // namespace ashlar

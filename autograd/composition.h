// Gradients that can be differentiated, of an operation whose own gradients are kernels.
#pragma once

#include <functional>
#include <vector>

#include "autograd/node.h"
#include "autograd/var.h"

namespace ashlar {

/// An operation's outputs, composed of operators on Vars.
using Composition = std::function<std::vector<Var>(const std::vector<Var>& inputs)>;

/// What the Var half of a gradient returns where the Tensor half is a kernel that has no gradient of its own: `forward`
/// is the operation once more, in recorded operators, and its gradients are taken and recorded. `inputs` are the
/// operation's, undefined where they were left out; `grad_outputs` are dL/d(output), undefined where none came back.
/// One Var for each input, undefined where `needs` doesn't ask for it or no output depends on it. Only `forward` is
/// walked, whatever the inputs were computed from.
///
/// Throws what `forward` and its operators' gradients throw.
std::vector<Var> gradients_of_composition(const Composition& forward, const std::vector<Var>& inputs,
                                          const std::vector<Var>& grad_outputs, Needs needs);

/// What the Tensor half returns where it has no kernel either: the same, of which nothing is recorded.
std::vector<Tensor> first_gradients_of_composition(const Composition& forward, const std::vector<Tensor>& inputs,
                                                   const std::vector<Tensor>& grad_outputs, Needs needs);

}  // namespace ashlar

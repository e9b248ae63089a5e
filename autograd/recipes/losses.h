// Gradients of losses of two tensors, element by element.
#pragma once

#include <cstdint>

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

enum class LossKind : uint8_t {
  mse,
  l1,
  smooth_l1,
  huber,
  bce,
  bce_with_logits,
  kl_div_of_target,
  kl_div_of_logs,
  hinge,
};

/// dL/dinput of y = loss(input, target), dy being dL/dy: of a Tensor by the loss' kernel, of a Var composed of
/// operators. `option` is its beta, delta or margin; reduction 0: none, 1: mean, 2: sum.
template <class T>
T loss_input_grad(LossKind loss, const T& dy, const T& input, const T& target, double option, int reduction);

/// dL/dtarget
template <class T>
T loss_target_grad(LossKind loss, const T& dy, const T& input, const T& target, double option, int reduction);

}  // namespace ashlar::recipes

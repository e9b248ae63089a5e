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
/// operators. `option` is its beta, delta or margin; reduction 0: none, 1: mean, 2: sum, 3: that
/// divided by input's first size.
template <class T>
T loss_input_grad(LossKind loss, const T& dy, const T& input, const T& target, double option, int reduction);

/// dL/dtarget
template <class T>
T loss_target_grad(LossKind loss, const T& dy, const T& input, const T& target, double option, int reduction);

/// The same of binary_cross_entropy() and binary_cross_entropy_with_logits(), whose weights may be undefined.
template <class T>
T bce_input_grad(const T& dy, const T& input, const T& target, const T& weight, int reduction);
template <class T>
T bce_target_grad(const T& dy, const T& input, const T& target, const T& weight, int reduction);
template <class T>
T bce_with_logits_input_grad(const T& dy, const T& input, const T& target, const T& weight, const T& pos_weight,
                             int reduction);
template <class T>
T bce_with_logits_target_grad(const T& dy, const T& input, const T& target, const T& weight, const T& pos_weight,
                              int reduction);

}  // namespace ashlar::recipes

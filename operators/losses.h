// What losses of two tensors have in common, for them and their gradients.
#pragma once

#include <span>

#include "runtime/launch/kernel.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// The operator and its kernels (generators/losses.cpp).
struct LossKernels {
  const KernelInfo &operation, &terms, &sum, &slope;
};
extern const LossKernels kMse, kL1, kSmoothL1, kHuber, kBce, kBceWithLogits, kKlDiv, kKlDivOfLogs, kHingeEmbedding;

/// The terms (reduction 0), in the shape where both meet; their mean (1) or their sum (2), of rank 0. In the input's
/// dtype. Throws ShapeError, DTypeError, DeviceError.
Tensor loss_of(const LossKernels& loss, const Tensor& input, const Tensor& target, std::span<const double> options,
               int reduction);

/// f32, in the shape where both meet: each term's slope by the input times its dy, which has that shape where there's
/// no reduction and is one number else.
Tensor loss_slope(const LossKernels& loss, const Tensor& dy, const Tensor& input, const Tensor& target,
                  std::span<const double> options, int reduction);

}  // namespace ashlar

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

/// The terms (reduction 0), in the shape where both meet; their mean (1), their sum (2), or that divided by input's
/// first size (3), of rank 0. In the input's dtype. Throws ShapeError, DTypeError, DeviceError.
Tensor loss_of(const LossKernels& loss, const Tensor& input, const Tensor& target, std::span<const double> options,
               int reduction);

/// What each term counts in a reduction, of `count` of them.
double loss_scale(int reduction, const Shape& input, int64_t count);

/// f32, in the shape where both meet: each term's slope by the input times its dy, which has that shape where there's
/// no reduction and is one number else.
Tensor loss_slope(const LossKernels& loss, const Tensor& dy, const Tensor& input, const Tensor& target,
                  std::span<const double> options, int reduction);

/// In f32; of none, a 1.
Tensor weight_or_one(const Tensor& weight, const Tensor& beside);

}  // namespace ashlar

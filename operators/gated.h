// What the gradients of prelu and glu are made of.
#pragma once

#include "runtime/tensor/tensor.h"

namespace ashlar {

/// dy where x > 0, else weight dy: f32, broadcast to each other.
Tensor prelu_slope(const Tensor& dy, const Tensor& x, const Tensor& weight);

/// Σ dy x where x ≤ 0, of each of so many channels, axis 1 of x, or of all elements for one: [channels]. f32, of one
/// shape.
Tensor prelu_weight_sums(const Tensor& dy, const Tensor& x, int64_t channels);

/// glu's gradient by x, whose size along the axis is even: f32.
Tensor glu_slope(const Tensor& dy, const Tensor& x, int64_t axis);

}  // namespace ashlar

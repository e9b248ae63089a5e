// Differentiable views and moves of a Var.
#pragma once

#include "autograd/var.h"

namespace ashlar::ad {

/// Sizes as Tensor::reshape: one may be -1. dx = reshape(dy).
Var reshape(const Var& x, const Shape& shape);
/// y's axis i is x's axis axes[i]. dx = dy with the inverse permutation.
Var permute(const Var& x, const Shape& axes);
/// Exchanges two axes. dx = transpose(dy).
Var transpose(const Var& x, int64_t a, int64_t b);
/// Elements start, start + step, … below stop of `axis`. dx is dy there and 0 elsewhere.
Var slice(const Var& x, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
/// The index-th sub-tensor along `axis`, which disappears. dx is dy there and 0 elsewhere.
Var select(const Var& x, int64_t axis, int64_t index);
/// NumPy broadcasting. dx = sum of dy over the broadcast axes.
Var broadcast_to(const Var& x, const Shape& shape);
/// Cast. dx = dy in x's dtype. Casting to a dtype that isn't floating point ends the history.
Var to(const Var& x, DType dtype);
/// Copy to another device. dx = dy on x's device.
Var to(const Var& x, Device device);

}  // namespace ashlar::ad

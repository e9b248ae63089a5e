// Differentiable views and moves of a Var, as functions; Var has them as members, too.
#pragma once

#include "autograd/var.h"

namespace ashlar::ad {

/// Sizes as Tensor::reshape: one may be -1. dx = reshape(dy).
inline Var reshape(const Var& x, const Shape& shape) { return x.reshape(shape); }
/// y's axis i is x's axis axes[i]. dx = dy with the inverse permutation.
inline Var permute(const Var& x, const Shape& axes) { return x.permute(axes); }
/// Exchanges two axes. dx = transpose(dy).
inline Var transpose(const Var& x, int64_t a, int64_t b) { return x.transpose(a, b); }
/// Elements start, start + step, … below stop of `axis`. dx is dy there and 0 elsewhere.
inline Var slice(const Var& x, int64_t axis, int64_t start, int64_t stop, int64_t step = 1) {
  return x.slice(axis, start, stop, step);
}
/// The index-th sub-tensor along `axis`, which disappears. dx is dy there and 0 elsewhere.
inline Var select(const Var& x, int64_t axis, int64_t index) { return x.select(axis, index); }
/// NumPy broadcasting. dx = sum of dy over the broadcast axes.
inline Var broadcast_to(const Var& x, const Shape& shape) { return x.broadcast_to(shape); }
/// Cast. dx = dy in x's dtype. Casting to a dtype that isn't floating point ends the history.
inline Var to(const Var& x, DType dtype) { return x.to(dtype); }
/// Copy to another device. dx = dy on x's device.
inline Var to(const Var& x, Device device) { return x.to(device); }

}  // namespace ashlar::ad

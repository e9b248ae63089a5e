// What recipes that are written once, for Tensor and for Var, need to know of either.
#pragma once

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

inline const Tensor& value_of(const Tensor& x) { return x; }
inline const Tensor& value_of(const Var& x) { return x.value(); }

/// A constant of rank 0 beside x, of its dtype and device.
template <class T>
T number(double value, const T& x) {
  return T(Tensor::full({}, value, x.dtype(), x.device()));
}

}  // namespace ashlar::recipes

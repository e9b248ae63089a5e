// Gradient of max over axes, and of maximum and minimum of two tensors.
#pragma once

#include "autograd/node.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y = max(x, axes): dy goes to the elements equal to the maximum, in equal shares among ties (what
/// torch.amax does). Rows whose maximum is NaN get 0/0 = NaN.
template <class T>
T max_grad(const T& dy, const T& x, const T& y, const Shape& axes, bool keepdim);

/// y = maximum(a, b) or minimum(a, b), with broadcasting: dy goes to the operand that equals y, half to each in a
/// tie. Returns {da, db} in the operands' shapes, undefined where not needed.
template <class T>
std::vector<T> extremum_of_two_grad(const T& dy, const T& a, const T& b, const T& y, Needs needs);

}  // namespace ashlar::recipes

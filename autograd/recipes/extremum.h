// Gradient of max over axes, and of maximum and minimum of two tensors.
#pragma once

#include "autograd/node.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y = max(x, axes): dy goes to the elements equal to the maximum, in equal shares among ties (what
/// torch.amax does). Rows whose maximum is NaN get 0/0 = NaN.
Tensor max_grad(const Tensor& dy, const Tensor& x, const Tensor& y, const Shape& axes, bool keepdim);

/// y = maximum(a, b) or minimum(a, b), with broadcasting: dy goes to the operand that equals y, half to each in a
/// tie. Returns {da, db} in the operands' shapes, undefined where not needed.
std::vector<Tensor> extremum_of_two_grad(const Tensor& dy, const Tensor& a, const Tensor& b, const Tensor& y,
                                         Needs needs);

}  // namespace ashlar::recipes

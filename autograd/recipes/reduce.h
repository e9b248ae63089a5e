// Gradients of reductions.
#pragma once

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// dy of a reduction of an x of `shape` over `axes` (empty: all), seen in x's shape again: a view whose strides are 0
/// along the reduced axes. Copies nothing. Throws ShapeError when dy isn't what that reduction gives.
template <class T>
T unreduce(const T& dy, const Shape& axes, bool keepdim, const Shape& shape);

/// How many elements one output of a reduction of `shape` over `axes` (empty: all) takes in.
int64_t reduced_count(const Shape& shape, const Shape& axes);

/// y = sum(x, axes): dx = dy, in x's shape.
template <class T>
T sum_grad(const T& dy, const Shape& axes, bool keepdim, const Shape& shape);

/// y = mean(x, axes): dx = dy / n.
template <class T>
T mean_grad(const T& dy, const Shape& axes, bool keepdim, const Shape& shape);

/// y = var(x, axes): dx = 2 dy (x - mean) / (n - correction), in f32 up to the last rounding where x has 16 bits.
Tensor var_grad(const Tensor& dy, const Tensor& x, const Shape& axes, bool keepdim, double correction);

/// y = std(x, axes): dx = dy (x - mean) / ((n - correction) y); 0 where y is 0, as in PyTorch.
Tensor std_grad(const Tensor& dy, const Tensor& x, const Tensor& y, const Shape& axes, bool keepdim, double correction);

/// y = norm(x, p, axes): dx = dy sign(x) (|x| / y)^(p - 1), 0 where y is 0 and, for p < 1, where x is; for p = ±∞ equal
/// shares of dy sign(x) where |x| = y; 0 for p = 0. As in PyTorch.
Tensor norm_grad(const Tensor& dy, const Tensor& x, const Tensor& y, double p, const Shape& axes, bool keepdim);

/// y = logsumexp(x, axes): dx = dy e^(x - y); of elements that are all -Inf, NaN as in PyTorch.
Tensor logsumexp_grad(const Tensor& dy, const Tensor& x, const Tensor& y, const Shape& axes, bool keepdim);

/// y = prod(x, axes): dx = dy times the product of all other elements, zeros among them or not.
Tensor prod_grad(const Tensor& dy, const Tensor& x, const Shape& axes, bool keepdim);

/// y = cumsum(x, axis): dx[k] = Σ of dy[j] for j >= k.
Tensor cumsum_grad(const Tensor& dy, int64_t axis);

/// y = cumprod(x, axis): dx[k] = Σ of dy[j] y[j] / x[k] for j >= k, at the first 0 of x with that left out of y, and
/// behind it 0.
Tensor cumprod_grad(const Tensor& dy, const Tensor& x, int64_t axis);

}  // namespace ashlar::recipes

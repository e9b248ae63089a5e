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
template <class T>
T var_grad(const T& dy, const T& x, const Shape& axes, bool keepdim, double correction);

/// y = std(x, axes): dx = dy (x - mean) / ((n - correction) y); 0 where y is 0, as in PyTorch.
template <class T>
T std_grad(const T& dy, const T& x, const T& y, const Shape& axes, bool keepdim, double correction);

/// y = norm(x, p, axes): dx = dy sign(x) (|x| / y)^(p - 1), 0 where y is 0 and, for p < 1, where x is; for p = ±∞ equal
/// shares of dy sign(x) where |x| = y; 0 for p = 0. As in PyTorch.
template <class T>
T norm_grad(const T& dy, const T& x, const T& y, double p, const Shape& axes, bool keepdim);

/// y = logsumexp(x, axes): dx = dy e^(x - y); of elements that are all -Inf, NaN as in PyTorch.
template <class T>
T logsumexp_grad(const T& dy, const T& x, const T& y, const Shape& axes, bool keepdim);

/// y = prod(x, axes): dx = dy times the product of all other elements, zeros among them or not. Of Vars by a tree of
/// products, and cumprod's by log2(n) rounds of them, which are right at zeros however often they are differentiated.
template <class T>
T prod_grad(const T& dy, const T& x, const Shape& axes, bool keepdim);

/// y = cumsum(x, axis): dx[k] = Σ of dy[j] for j >= k.
template <class T>
T cumsum_grad(const T& dy, int64_t axis);

/// y = cumprod(x, axis): dx[k] = Σ of dy[j] y[j] / x[k] for j >= k, at the first 0 of x with that left out of y, and
/// behind it 0.
template <class T>
T cumprod_grad(const T& dy, const T& x, int64_t axis);

/// y = logcumsumexp(x, axis): dx[k] = Σ of dy[j] e^(x[k] - y[j]) for j >= k; NaN where y is -Inf or x +Inf, as in
/// PyTorch. Of Vars by log2(n) rounds of logsumexp.
template <class T>
T logcumsumexp_grad(const T& dy, const T& x, const T& y, int64_t axis);

}  // namespace ashlar::recipes

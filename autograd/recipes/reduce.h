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

}  // namespace ashlar::recipes

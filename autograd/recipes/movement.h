// Gradients of operators that only move elements.
#pragma once

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y = repeat(x, repeats) or tile(x, repeats), x of `shape`: the sum of dy over all copies.
template <class T>
T repeat_grad(const T& dy, const Shape& shape, const Shape& repeats);

/// Each number with the other sign.
Shape opposite(const Shape& shifts);

/// y = scatter(x, index, src, axis): dx = dy with zeros where something was written.
template <class T>
T scatter_rest_grad(const T& dy, const Tensor& index, int64_t axis);

/// y = scatter(x, index, src, axis), src of `shape`: dsrc = gather(dy, index, axis), 0 for what a later element wrote
/// over. (PyTorch, where it isn't known which one that is, has dy for all of them.) Throws AutogradError where src is
/// larger than the index.
template <class T>
T scatter_source_grad(const T& dy, const Tensor& index, const Shape& shape, int64_t axis);

}  // namespace ashlar::recipes

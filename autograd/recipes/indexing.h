// Gradients of reads and sums at computed places.
#pragma once

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y = gather(x, index, axis), x of `shape`: dx = scatter_add(0, index, dy, axis).
template <class T>
T scatter_into_zeros(const T& dy, const Tensor& index, const Shape& shape, int64_t axis);

/// values, indices = sort(x, axis) or topk(x, k, axis): the same of these indices.
template <class T>
T sort_grad(const T& dvalues, const Tensor& indices, const Shape& shape, int64_t axis);

/// y = take_along(x, index, axis): the same, summed over the axes along which x was broadcast.
template <class T>
T take_along_grad(const T& dy, const Tensor& index, const Shape& shape, int64_t axis);

/// y = index_select(x, index, axis): dx = index_add(0, index, dy, axis).
template <class T>
T index_add_to_zeros(const T& dy, const Tensor& index, const Shape& shape, int64_t axis);

/// y = scatter_add(x, index, src, axis), src of `shape`: dsrc = gather(dy, index, axis). Throws AutogradError where src
/// is larger than the index, as in PyTorch.
template <class T>
T scatter_add_source_grad(const T& dy, const Tensor& index, const Shape& shape, int64_t axis);

/// x with zeros in that row; x itself for -1.
template <class T>
T without_row(const T& x, int64_t row);

}  // namespace ashlar::recipes

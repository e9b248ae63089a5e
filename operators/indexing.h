// What operators that read or write at computed places have in common.
#pragma once

#include "runtime/tensor/tensor.h"

namespace ashlar {

/// A tensor's shape with one of its axes in the middle: [outer, extent, inner].
struct AxisInMiddle {
  int axis = 0;  ///< from the front; of a tensor of rank 0, which counts as one of one element, 0
  int64_t outer = 1, extent = 1, inner = 1;

  AxisInMiddle(const char* operation, const Shape& shape, int64_t axis);
  Shape shape() const { return {outer, extent, inner}; }
};

/// On the CPU outside of a capture, where reading them costs no wait: throws IndexError unless all of `index` (i64) is
/// in [0, size). Everywhere, when there is an index but size is 0.
void check_indices(const char* operation, const Tensor& index, int64_t size);

/// Throws DTypeError unless `index` is i64, DeviceError unless it lies beside x.
void check_index_tensor(const char* operation, const Tensor& x, const Tensor& index);

/// Throws ShapeError unless each size of `index` but that of `axis` is at most x's; with rank 0 as rank 1.
void check_index_shape(const char* operation, const Tensor& x, const Tensor& index, int axis, const char* name);

/// Throws unless `src` is defined, of x's dtype and on x's device.
void check_source(const char* operation, const Tensor& x, const Tensor& src);

/// The part of x that indices of this shape see: the first elements of each axis but `axis`.
Tensor seen_by(const Tensor& x, const Shape& index, int axis);

}  // namespace ashlar

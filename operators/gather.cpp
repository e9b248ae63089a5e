// gather, take_along, index_select and embedding: one kernel, seen through different strides.
#include "ashlar/ops/gather.h"

#include <array>

#include "operators/indexing.h"
#include "runtime/forms/carrier.h"
#include "runtime/forms/check.h"
#include "runtime/launch/launch.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// The bits of what is read where nothing is: NaN, or 0 of integers.
int64_t bits_of_nothing(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x7fc00000;
    case DType::f64:
      return 0x7ff8000000000000;
    case DType::f16:
      return 0x7e00;
    case DType::bf16:
      return 0x7fc0;
    default:
      return 0;
  }
}

/// y[o,j,i] = x[o, index[o,j,i], i], y of `shape`; x and index of rank 3 by their strides.
Tensor gathered(const Tensor& x, const Tensor& index, const Shape& shape) {
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  if (y.numel() == 0) return y;
  const KernelKey key{.elements = {forms::carrier(x.dtype())}};
  const std::array inputs{forms::as_carrier(x), index};
  const std::array<Scalar, 1> otherwise{bits_of_nothing(x.dtype())};
  const Tensor out = forms::as_carrier(y).reshape(index.shape());
  launch(kernels::gather_elements, key, inputs, otherwise, std::span(&out, 1));
  return y;
}

Tensor as_rank_3(int input, const Tensor& x, const Shape& shape) {
  return forms::as_declared(kernels::gather_elements, input, x, shape);
}

/// y[o,j,i] = x[o, index[j], i]
Tensor selected(const char* operation, const Tensor& x, const Tensor& index, int64_t axis, const Shape& shape) {
  const AxisInMiddle middle(operation, x.shape(), axis);
  check_indices(operation, index, middle.extent);
  const Tensor flat = index.contiguous();
  const Shape repeated{middle.outer, index.numel(), middle.inner};
  return gathered(as_rank_3(0, x, middle.shape()), flat.as_strided(repeated, {0, 1, 0}, flat.offset()), shape);
}

}  // namespace

Tensor gather(const Tensor& x, const Tensor& index, int64_t axis) {
  check_index_tensor("gather", x, index);
  const AxisInMiddle middle("gather", index.shape(), axis);
  check_index_shape("gather", x, index, normalize_reduced_axis("gather", axis, x.rank()), "x");
  if (index.numel() == 0) return Tensor::empty(index.shape(), x.dtype(), x.device());
  const Tensor seen = seen_by(x, index.shape(), middle.axis);
  const int64_t extent = x.rank() == 0 ? 1 : x.shape()[middle.axis];
  check_indices("gather", index, extent);
  return gathered(as_rank_3(0, seen, {middle.outer, extent, middle.inner}), as_rank_3(1, index, middle.shape()),
                  index.shape());
}

Tensor take_along(const Tensor& x, const Tensor& index, int64_t axis) {
  check_index_tensor("take_along", x, index);
  const int along = normalize_reduced_axis("take_along", axis, x.rank());
  if (x.rank() != index.rank()) {
    throw ShapeError("take_along", "x: " + x.str() + ", index: " + index.str(), "an index of x's rank",
                     "Give it axes of size 1 with unsqueeze()");
  }
  if (x.rank() == 0) return gather(x, index, axis);
  // Both with 1 along the axis, so that the others are broadcast.
  Shape of_x = x.shape(), of_index = index.shape();
  of_x[along] = of_index[along] = 1;
  of_x = of_index = broadcast("take_along", of_x, of_index);
  of_x[along] = x.shape()[along];
  of_index[along] = index.shape()[along];
  return gather(x.broadcast_to(of_x), index.broadcast_to(of_index), axis);
}

Tensor index_select(const Tensor& x, const Tensor& index, int64_t axis) {
  check_index_tensor("index_select", x, index);
  if (index.rank() > 1) {
    throw ShapeError("index_select", "index: " + index.str(), "an index of rank 1", "Flatten it, or call gather()");
  }
  Shape shape = x.shape();
  if (x.rank() > 0) {
    shape[normalize_axis("index_select", axis, x.rank())] = index.numel();
  } else if (index.numel() != 1) {
    throw ShapeError("index_select", "index: " + index.str() + " into a tensor of rank 0", "one index",
                     "Give x.reshape({1})");
  }
  return selected("index_select", x, index, axis, shape);
}

Tensor embedding(const Tensor& index, const Tensor& weight, int64_t padding_idx) {
  check_index_tensor("embedding", weight, index);
  if (weight.rank() != 2) {
    throw ShapeError("embedding", "weight: " + weight.str(), "a weight of rank 2, [rows, columns]",
                     "Reshape it, or call index_select()");
  }
  if (padding_idx < -1 || padding_idx >= weight.size(0)) {
    throw ValueError("embedding", "padding_idx = " + std::to_string(padding_idx) + " for weight: " + weight.str(),
                     "-1 for none, or a row of the weight", "Count it from the front");
  }
  Shape shape = index.shape();
  shape.push_back(weight.size(1));
  return selected("embedding", weight, index, 0, shape);
}

}  // namespace ashlar

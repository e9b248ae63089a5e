// Several tensors as one.
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/tensor/promotion.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {
namespace {

std::string listed(std::span<const Tensor> tensors) {
  std::string text;
  for (const Tensor& x : tensors) text += (text.empty() ? "" : ", ") + x.str();
  return text;
}

void require_one_device(const char* operation, std::span<const Tensor> tensors) {
  if (tensors.empty()) throw ValueError(operation, "no tensor", "at least one", "Pass the tensors to join");
  for (const Tensor& x : tensors) {
    if (!x.defined()) {
      throw ValueError(operation, listed(tensors), "tensors with elements",
                       "Make them with Tensor::empty(), Tensor::from() or an operator first");
    }
    if (x.device() != tensors[0].device()) {
      throw DeviceError(operation, listed(tensors), "all tensors on one device", "Copy with to(Device)");
    }
  }
}

}  // namespace

Tensor cat(std::span<const Tensor> tensors, int64_t axis) try {
  require_one_device("cat", tensors);
  Shape shape = tensors[0].shape();
  const int joined = normalize_axis("cat", axis, shape.rank());
  for (const Tensor& x : tensors.subspan(1)) {
    bool fits = x.rank() == shape.rank();
    for (int i = 0; fits && i < shape.rank(); i++) fits = i == joined || x.shape()[i] == shape[i];
    if (!fits) {
      throw ShapeError("cat", listed(tensors), "sizes that are equal on every axis but " + std::to_string(joined),
                       "Slice or broadcast_to() what differs");
    }
    shape[joined] += x.shape()[joined];
  }
  const Tensor result = Tensor::empty(shape, result_type(tensors), tensors[0].device());
  int64_t start = 0;
  for (const Tensor& x : tensors) {
    const int64_t stop = start + x.shape()[joined];
    result.slice(joined, start, stop).copy_(x.to(result.dtype()));
    start = stop;
  }
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("cat");
}

Tensor stack(std::span<const Tensor> tensors, int64_t axis) try {
  require_one_device("stack", tensors);
  const Shape& shape = tensors[0].shape();
  Shape stacked = shape;
  const int added = normalize_axis("stack", axis, shape.rank() + 1);
  stacked.insert(added, static_cast<int64_t>(tensors.size()));
  const Tensor result = Tensor::empty(stacked, result_type(tensors), tensors[0].device());
  for (size_t i = 0; i < tensors.size(); i++) {
    if (tensors[i].shape() != shape) {
      throw ShapeError("stack", listed(tensors), "tensors of one shape", "Use broadcast_to(), or cat()");
    }
    result.select(added, static_cast<int64_t>(i)).copy_(tensors[i].to(result.dtype()));
  }
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("stack");
}

Tensor cat(std::initializer_list<Tensor> tensors, int64_t axis) {
  return cat(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

Tensor stack(std::initializer_list<Tensor> tensors, int64_t axis) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

}  // namespace ashlar

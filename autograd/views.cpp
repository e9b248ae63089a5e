#include "autograd/views.h"

#include <utility>
#include <vector>

#include "autograd/node.h"
#include "autograd/recipes/broadcast.h"

namespace ashlar::ad {
namespace {

/// Zeros shaped like `like`, with dy put where `view` points.
template <class View>
Tensor scattered(const Tensor& dy, const Shape& shape, View view) {
  const Tensor dx = Tensor::zeros(shape, dy.dtype(), dy.device());
  view(dx).copy_(dy);
  return dx;
}

}  // namespace

Var reshape(const Var& x, const Shape& shape) {
  return record("reshape", {x}, x.value().reshape(shape),
                [from = x.shape()](const Tensor& dy) -> std::vector<Tensor> { return {dy.reshape(from)}; });
}

Var permute(const Var& x, const Shape& axes) {
  Tensor y = x.value().permute(axes);
  Shape inverse = Shape::filled(axes.rank(), 0);
  for (int i = 0; i < axes.rank(); i++) inverse[normalize_axis("permute", axes[i], axes.rank())] = i;
  return record("permute", {x}, std::move(y),
                [inverse](const Tensor& dy) -> std::vector<Tensor> { return {dy.permute(inverse)}; });
}

Var transpose(const Var& x, int64_t a, int64_t b) {
  return record("transpose", {x}, x.value().transpose(a, b),
                [a, b](const Tensor& dy) -> std::vector<Tensor> { return {dy.transpose(a, b)}; });
}

Var slice(const Var& x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  auto view = [axis, start, stop, step](const Tensor& t) { return t.slice(axis, start, stop, step); };
  return record("slice", {x}, view(x.value()), [view, shape = x.shape()](const Tensor& dy) -> std::vector<Tensor> {
    return {scattered(dy, shape, view)};
  });
}

Var select(const Var& x, int64_t axis, int64_t index) {
  auto view = [axis, index](const Tensor& t) { return t.select(axis, index); };
  return record("select", {x}, view(x.value()), [view, shape = x.shape()](const Tensor& dy) -> std::vector<Tensor> {
    return {scattered(dy, shape, view)};
  });
}

Var broadcast_to(const Var& x, const Shape& shape) {
  return record(
      "broadcast_to", {x}, x.value().broadcast_to(shape),
      [from = x.shape()](const Tensor& dy) -> std::vector<Tensor> { return {recipes::sum_to_shape(dy, from)}; });
}

Var to(const Var& x, DType dtype) {
  return record("to", {x}, x.value().to(dtype),
                [from = x.dtype()](const Tensor& dy) -> std::vector<Tensor> { return {dy.to(from)}; });
}

Var to(const Var& x, Device device) {
  return record("to", {x}, x.value().to(device),
                [from = x.device()](const Tensor& dy) -> std::vector<Tensor> { return {dy.to(from)}; });
}

}  // namespace ashlar::ad

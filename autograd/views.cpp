#include "autograd/views.h"

#include <utility>

#include "autograd/node.h"
#include "autograd/recipes/broadcast.h"

namespace ashlar {
namespace {

/// Zeros of `shape`, with dy put where `view` points. Its gradient is that view of what comes back.
template <class View>
Tensor scattered(const Tensor& dy, const Shape& shape, const View& view) {
  const Tensor dx = Tensor::zeros(shape, dy.dtype(), dy.device());
  view(dx).copy_(dy);
  return dx;
}
template <class View>
Var scattered(const Var& dy, const Shape& shape, const View& view) {
  return record("scatter", {dy}, scattered(dy.value(), shape, view),
                [view](const auto& pass) { return pass.gradients(view(pass.dy())); });
}

/// view(x), `view` being a function of Tensors and of Vars.
template <class View>
Var viewed(const char* operation, const Var& x, const View& view) {
  return record(operation, {x}, view(x.value()), [view, shape = x.shape()](const auto& pass) {
    return pass.gradients(scattered(pass.dy(), shape, view));
  });
}

}  // namespace

Var Var::reshape(const Shape& shape) const {
  return record("reshape", {*this}, value().reshape(shape),
                [from = this->shape()](const auto& pass) { return pass.gradients(pass.dy().reshape(from)); });
}

Var Var::permute(const Shape& axes) const {
  Tensor y = value().permute(axes);
  Shape inverse = Shape::filled(axes.rank(), 0);
  for (int i = 0; i < axes.rank(); i++) inverse[normalize_axis("permute", axes[i], axes.rank())] = i;
  return record("permute", {*this}, std::move(y),
                [inverse](const auto& pass) { return pass.gradients(pass.dy().permute(inverse)); });
}

Var Var::transpose(int64_t a, int64_t b) const {
  return record("transpose", {*this}, value().transpose(a, b),
                [a, b](const auto& pass) { return pass.gradients(pass.dy().transpose(a, b)); });
}

Var Var::slice(int64_t axis, int64_t start, int64_t stop, int64_t step) const {
  return viewed("slice", *this, [=](const auto& t) { return t.slice(axis, start, stop, step); });
}

Var Var::select(int64_t axis, int64_t index) const {
  return viewed("select", *this, [=](const auto& t) { return t.select(axis, index); });
}

Var Var::squeeze(int64_t axis) const {
  return record("squeeze", {*this}, value().squeeze(axis),
                [from = shape()](const auto& pass) { return pass.gradients(pass.dy().reshape(from)); });
}

Var Var::unsqueeze(int64_t axis) const {
  return record("unsqueeze", {*this}, value().unsqueeze(axis),
                [from = shape()](const auto& pass) { return pass.gradients(pass.dy().reshape(from)); });
}

Var Var::broadcast_to(const Shape& shape) const {
  return record("broadcast_to", {*this}, value().broadcast_to(shape), [from = this->shape()](const auto& pass) {
    return pass.gradients(recipes::sum_to_shape(pass.dy(), from));
  });
}

Var Var::to(DType dtype) const {
  if (dtype == this->dtype()) return *this;
  return record("to", {*this}, value().to(dtype),
                [from = this->dtype()](const auto& pass) { return pass.gradients(pass.dy().to(from)); });
}

Var Var::to(Device device) const {
  if (device == this->device()) return *this;
  return record("to", {*this}, value().to(device),
                [from = this->device()](const auto& pass) { return pass.gradients(pass.dy().to(from)); });
}

}  // namespace ashlar

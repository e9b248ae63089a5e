#include "autograd/recipes/movement.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/values.h"
#include "runtime/support/error.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

/// Σ over the copies along `axis`, `count` of `size` elements each.
template <class T>
T sum_of_copies(const T& dy, int axis, int64_t count, int64_t size) {
  Shape apart = dy.shape();
  apart[axis] = size;
  const Shape one = apart;
  apart.insert(axis, count);
  Shape added = one;
  added.insert(axis, 1);
  return sum_to_shape(dy.reshape(apart), added).reshape(one);
}

}  // namespace

template <class T>
T repeat_grad(const T& dy, const Shape& shape, const Shape& repeats) {
  const bool is_narrow = size_of(dy.dtype()) == 2 && dy.numel() > shape.numel();
  T dx = is_narrow ? dy.to(DType::f32) : dy;  // rounded once
  const int missing = dy.rank() - repeats.rank(), added = dy.rank() - shape.rank();
  for (int i = 0; i < repeats.rank(); i++) {
    const int axis = i + missing;
    if (repeats[i] != 1) dx = sum_of_copies(dx, axis, repeats[i], axis < added ? 1 : shape[axis - added]);
  }
  return dx.reshape(shape).to(dy.dtype());
}

Shape opposite(const Shape& shifts) {
  Shape back = shifts;
  for (int64_t& shift : back) shift = -shift;
  return back;
}

template <class T>
T scatter_rest_grad(const T& dy, const Tensor& index, int64_t axis) {
  const Tensor zero = Tensor::zeros(Shape::filled(index.rank(), 1), value_of(dy).dtype(), value_of(dy).device());
  return scatter(dy, index, T(zero.broadcast_to(index.shape())), axis);
}

template <class T>
T scatter_source_grad(const T& dy, const Tensor& index, const Shape& shape, int64_t axis) {
  if (index.shape() != shape) {
    throw AutogradError("scatter", "src of shape " + shape.str() + " and an index of shape " + index.shape().str(),
                        "both of one shape for a gradient of src", "Slice src to the shape of the index");
  }
  if (index.numel() == 0) return gather(dy, index, axis);
  // Number the elements along the axis, scatter the numbers, and see which are still there.
  Tensor number = Tensor::zeros({}, DType::i64, index.device()).broadcast_to(shape);
  if (shape.rank() > 0) {
    const int along = normalize_axis("scatter", axis, shape.rank());
    Shape line = Shape::filled(shape.rank(), 1);
    line[along] = shape[along];
    const Tensor one = Tensor::ones({1}, DType::i64, index.device()).broadcast_to({shape[along]});
    number = ashlar::cumsum(one, 0).reshape(line).broadcast_to(shape);
  }
  const Tensor none = Tensor::zeros(Shape::filled(dy.rank(), 1), DType::i64, index.device()).broadcast_to(dy.shape());
  const Tensor last = ashlar::gather(ashlar::scatter(none, index, number, axis), index, axis);
  return masked_fill(gather(dy, index, axis), ashlar::ne(last, number), 0.0);
}

template Tensor repeat_grad(const Tensor&, const Shape&, const Shape&);
template Var repeat_grad(const Var&, const Shape&, const Shape&);
template Tensor scatter_rest_grad(const Tensor&, const Tensor&, int64_t);
template Var scatter_rest_grad(const Var&, const Tensor&, int64_t);
template Tensor scatter_source_grad(const Tensor&, const Tensor&, const Shape&, int64_t);
template Var scatter_source_grad(const Var&, const Tensor&, const Shape&, int64_t);

}  // namespace ashlar::recipes

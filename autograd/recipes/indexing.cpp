#include "autograd/recipes/indexing.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/values.h"
#include "runtime/support/error.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

/// Of one element in memory.
template <class T>
T zeros(const Shape& shape, const T& like) {
  const Tensor zero = Tensor::zeros(Shape::filled(shape.rank(), 1), value_of(like).dtype(), value_of(like).device());
  return T(zero.broadcast_to(shape));
}

}  // namespace

template <class T>
T scatter_into_zeros(const T& dy, const Tensor& index, const Shape& shape, int64_t axis) {
  return scatter_add(zeros(shape, dy), index, dy, axis);
}

template <class T>
T sort_grad(const T& dvalues, const Tensor& indices, const Shape& shape, int64_t axis) {
  return scatter_into_zeros(dvalues, indices, shape, axis);
}

template <class T>
T take_along_grad(const T& dy, const Tensor& index, const Shape& shape, int64_t axis) {
  if (shape.rank() == 0) return scatter_into_zeros(dy, index, shape, axis);
  const int along = normalize_axis("take_along", axis, shape.rank());
  Shape whole = dy.shape();
  whole[along] = shape[along];
  return sum_to_shape(scatter_into_zeros(dy, index.broadcast_to(dy.shape()), whole, axis), shape);
}

template <class T>
T index_add_to_zeros(const T& dy, const Tensor& index, const Shape& shape, int64_t axis) {
  return index_add(zeros(shape, dy), index, dy, axis);
}

template <class T>
T scatter_add_source_grad(const T& dy, const Tensor& index, const Shape& shape, int64_t axis) {
  if (index.shape() != shape) {
    throw AutogradError("scatter_add", "src of shape " + shape.str() + " and an index of shape " + index.shape().str(),
                        "both of one shape for a gradient of src", "Slice src to the shape of the index");
  }
  return gather(dy, index, axis);
}

template <class T>
T without_row(const T& x, int64_t row) {
  if (row < 0) return x;
  const Tensor kept = Tensor::ones({x.shape()[0], 1}, value_of(x).dtype(), value_of(x).device());
  kept.slice(0, row, row + 1).fill_(0);
  return mul(x, T(kept));
}

template Tensor scatter_into_zeros(const Tensor&, const Tensor&, const Shape&, int64_t);
template Var scatter_into_zeros(const Var&, const Tensor&, const Shape&, int64_t);
template Tensor sort_grad(const Tensor&, const Tensor&, const Shape&, int64_t);
template Var sort_grad(const Var&, const Tensor&, const Shape&, int64_t);
template Tensor take_along_grad(const Tensor&, const Tensor&, const Shape&, int64_t);
template Var take_along_grad(const Var&, const Tensor&, const Shape&, int64_t);
template Tensor index_add_to_zeros(const Tensor&, const Tensor&, const Shape&, int64_t);
template Var index_add_to_zeros(const Var&, const Tensor&, const Shape&, int64_t);
template Tensor scatter_add_source_grad(const Tensor&, const Tensor&, const Shape&, int64_t);
template Var scatter_add_source_grad(const Var&, const Tensor&, const Shape&, int64_t);
template Tensor without_row(const Tensor&, int64_t);
template Var without_row(const Var&, int64_t);

}  // namespace ashlar::recipes

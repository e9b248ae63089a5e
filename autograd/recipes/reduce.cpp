#include "autograd/recipes/reduce.h"

#include <array>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

std::array<bool, kMaxRank> reduced_axes(const char* operation, const Shape& shape, const Shape& axes) {
  std::array<bool, kMaxRank> reduced{};
  for (int i = 0; axes.empty() && i < shape.rank(); i++) reduced[static_cast<size_t>(i)] = true;
  for (int64_t axis : axes) {
    reduced[static_cast<size_t>(normalize_reduced_axis(operation, axis, shape.rank()))] = true;
  }
  return reduced;
}

}  // namespace

template <class T>
T unreduce(const T& dy, const Shape& axes, bool keepdim, const Shape& shape) {
  const auto reduced = reduced_axes("unreduce", shape, axes);
  Shape kept, reduced_shape;
  for (int i = 0; i < shape.rank(); i++) {
    const bool is_reduced = reduced[static_cast<size_t>(i)];
    kept.push_back(is_reduced ? 1 : shape[i]);
    if (!is_reduced || keepdim) reduced_shape.push_back(is_reduced ? 1 : shape[i]);
  }
  if (dy.shape() != reduced_shape) {
    throw ShapeError("unreduce", "shape " + dy.shape().str(),
                     "shape " + reduced_shape.str() + ", the reduction of " + shape.str(),
                     "Pass the gradient of the reduction's result");
  }
  return dy.reshape(kept).broadcast_to(shape);
}

int64_t reduced_count(const Shape& shape, const Shape& axes) {
  const auto reduced = reduced_axes("reduced_count", shape, axes);
  int64_t count = 1;
  for (int i = 0; i < shape.rank(); i++) count *= reduced[static_cast<size_t>(i)] ? shape[i] : 1;
  return count;
}

template <class T>
T sum_grad(const T& dy, const Shape& axes, bool keepdim, const Shape& shape) {
  return unreduce(dy, axes, keepdim, shape);
}

template <class T>
T mean_grad(const T& dy, const Shape& axes, bool keepdim, const Shape& shape) {
  const int64_t count = reduced_count(shape, axes);
  // Dividing before broadcasting touches dy's few elements instead of x's many.
  return unreduce(affine(dy, count == 0 ? 0.0 : 1.0 / static_cast<double>(count), 0.0), axes, keepdim, shape);
}

template Tensor unreduce(const Tensor&, const Shape&, bool, const Shape&);
template Var unreduce(const Var&, const Shape&, bool, const Shape&);
template Tensor sum_grad(const Tensor&, const Shape&, bool, const Shape&);
template Var sum_grad(const Var&, const Shape&, bool, const Shape&);
template Tensor mean_grad(const Tensor&, const Shape&, bool, const Shape&);
template Var mean_grad(const Var&, const Shape&, bool, const Shape&);

}  // namespace ashlar::recipes

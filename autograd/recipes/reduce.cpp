#include "autograd/recipes/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/extremum.h"
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

namespace {

/// 16-bit tensors in f32, in which the products of a gradient aren't rounded before they cancel.
Tensor in_arithmetic(const Tensor& x) {
  return x.dtype() == DType::f16 || x.dtype() == DType::bf16 ? x.to(DType::f32) : x;
}

Tensor number(double value, const Tensor& like) { return Tensor::full({}, value, like.dtype(), like.device()); }

}  // namespace

Tensor var_grad(const Tensor& dy, const Tensor& x, const Shape& axes, bool keepdim, double correction) {
  const auto count = static_cast<double>(reduced_count(x.shape(), axes));
  const Tensor values = in_arithmetic(x);
  const Tensor mean = mul(sum(values, axes, true), number(1 / count, values));
  const Tensor scaled = mul(in_arithmetic(dy), number(2 / std::max(count - correction, 0.0), values));
  return mul(unreduce(scaled, axes, keepdim, x.shape()), sub(values, mean)).to(x.dtype());
}

Tensor std_grad(const Tensor& dy, const Tensor& x, const Tensor& y, const Shape& axes, bool keepdim,
                double correction) {
  const Tensor deviation = in_arithmetic(y), zero = number(0, deviation);
  const Tensor half = div(in_arithmetic(dy), mul(deviation, number(2, deviation)));
  const Tensor upstream = where(eq(deviation, zero), zero, half);
  return var_grad(upstream, in_arithmetic(x), axes, keepdim, correction).to(x.dtype());
}

Tensor norm_grad(const Tensor& dy, const Tensor& x, const Tensor& y, double p, const Shape& axes, bool keepdim) {
  if (p == 0) return Tensor::zeros_like(x);
  const Tensor values = in_arithmetic(x), zero = number(0, values), upstream = in_arithmetic(dy);
  const auto over_x = [&](const Tensor& t) { return unreduce(t, axes, keepdim, x.shape()); };
  if (p == 1) return mul(over_x(upstream), sign(values)).to(x.dtype());
  if (std::isinf(p)) {
    return mul(sign(values), max_grad(upstream, abs(values), in_arithmetic(y), axes, keepdim)).to(x.dtype());
  }
  const Tensor total = over_x(in_arithmetic(y));
  const Tensor ratio = div(abs(values), total);
  const Tensor power = p == 2 ? ratio : pow(ratio, number(p - 1, values));
  const Tensor slope = mul(over_x(upstream), mul(sign(values), power));
  return where(eq(p < 1 ? values : total, zero), zero, slope).to(x.dtype());
}

Tensor logsumexp_grad(const Tensor& dy, const Tensor& x, const Tensor& y, const Shape& axes, bool keepdim) {
  const Tensor total = unreduce(in_arithmetic(y), axes, keepdim, x.shape());
  const Tensor share = exp(sub(in_arithmetic(x), total));
  return mul(unreduce(in_arithmetic(dy), axes, keepdim, x.shape()), share).to(x.dtype());
}

Tensor prod_grad(const Tensor& dy, const Tensor& x, const Shape& axes, bool keepdim) {
  const Tensor values = in_arithmetic(x);
  const Tensor is_zero = equal(values, number(0, values));
  const Tensor factors = add(values, is_zero);  // 1 in place of 0
  const Tensor others = div(prod(factors, axes, true), factors);
  // Without zeros each element counts; with one, that alone; with more, none.
  const Tensor counts = equal(sum(is_zero, axes, true), is_zero);
  return mul(unreduce(in_arithmetic(dy), axes, keepdim, x.shape()), mul(counts, others)).to(x.dtype());
}

Tensor cumsum_grad(const Tensor& dy, int64_t axis) {
  return dy.rank() == 0 ? dy : cumsum(dy.flip(axis), axis).flip(axis);
}

Tensor cumprod_grad(const Tensor& dy, const Tensor& x, int64_t axis) {
  if (x.rank() == 0) return dy;
  const Tensor values = in_arithmetic(x), upstream = in_arithmetic(dy), zero = number(0, values),
               one = number(1, values);
  const Tensor is_zero = eq(values, zero);
  const Tensor zeros_so_far = cumsum(is_zero.to(values.dtype()), axis);
  const Tensor is_before = eq(zeros_so_far, zero), is_first = logical_and(is_zero, eq(zeros_so_far, one));
  const auto from_here_on = [&](const Tensor& product) { return cumsum_grad(mul(upstream, product), axis); };
  const Tensor before = div(from_here_on(cumprod(values, axis)), values);
  const Tensor at_first = from_here_on(cumprod(where(is_first, one, values), axis));
  return where(is_before, before, where(is_first, at_first, zero)).to(x.dtype());
}

template Tensor unreduce(const Tensor&, const Shape&, bool, const Shape&);
template Var unreduce(const Var&, const Shape&, bool, const Shape&);
template Tensor sum_grad(const Tensor&, const Shape&, bool, const Shape&);
template Var sum_grad(const Var&, const Shape&, bool, const Shape&);
template Tensor mean_grad(const Tensor&, const Shape&, bool, const Shape&);
template Var mean_grad(const Var&, const Shape&, bool, const Shape&);

}  // namespace ashlar::recipes

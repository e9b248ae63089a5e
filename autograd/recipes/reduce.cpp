#include "autograd/recipes/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/composition.h"
#include "autograd/recipes/extremum.h"
#include "autograd/recipes/values.h"
#include "runtime/forms/rows.h"
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
template <class T>
T in_arithmetic(const T& x) {
  return x.dtype() == DType::f16 || x.dtype() == DType::bf16 ? x.to(DType::f32) : x;
}

Tensor backwards(const Tensor& x, int64_t axis) { return x.flip(axis); }
Var backwards(const Var& x, int64_t axis) { return flip(x, {axis}); }

}  // namespace

template <class T>
T var_grad(const T& dy, const T& x, const Shape& axes, bool keepdim, double correction) {
  const auto count = static_cast<double>(reduced_count(x.shape(), axes));
  const T values = in_arithmetic(x);
  const T mean = mul(sum(values, axes, true), number(1 / count, values));
  const T scaled = mul(in_arithmetic(dy), number(2 / std::max(count - correction, 0.0), values));
  return mul(unreduce(scaled, axes, keepdim, x.shape()), sub(values, mean)).to(x.dtype());
}

template <class T>
T std_grad(const T& dy, const T& x, const T& y, const Shape& axes, bool keepdim, double correction) {
  const T deviation = in_arithmetic(y), zero = number(0, deviation);
  const T half = div(in_arithmetic(dy), mul(deviation, number(2, deviation)));
  const T upstream = where(eq(value_of(deviation), value_of(zero)), zero, half);
  return var_grad(upstream, in_arithmetic(x), axes, keepdim, correction).to(x.dtype());
}

template <class T>
T norm_grad(const T& dy, const T& x, const T& y, double p, const Shape& axes, bool keepdim) {
  if (p == 0) return T(Tensor::zeros_like(value_of(x)));
  const T values = in_arithmetic(x), zero = number(0, values), upstream = in_arithmetic(dy);
  const auto over_x = [&](const T& t) { return unreduce(t, axes, keepdim, x.shape()); };
  if (p == 1) return mul(over_x(upstream), sign(values)).to(x.dtype());
  if (std::isinf(p)) {
    return mul(sign(values), max_grad(upstream, abs(values), in_arithmetic(y), axes, keepdim)).to(x.dtype());
  }
  // A norm of 0 is one of zeros, of which the quotient by anything else is 0, and has derivatives.
  const T norm = in_arithmetic(y), one = number(1, values);
  const T total = over_x(where(eq(value_of(norm), value_of(zero)), one, norm));
  if (p == 2) return mul(over_x(upstream), div(values, total)).to(x.dtype());
  const T power = pow(div(abs(values), total), number(p - 1, values));
  const T slope = mul(over_x(upstream), mul(sign(values), power));
  return (p < 1 ? where(eq(value_of(values), value_of(zero)), zero, slope) : slope).to(x.dtype());
}

template <class T>
T logsumexp_grad(const T& dy, const T& x, const T& y, const Shape& axes, bool keepdim) {
  const T total = unreduce(in_arithmetic(y), axes, keepdim, x.shape());
  const T share = exp(sub(in_arithmetic(x), total));
  return mul(unreduce(in_arithmetic(dy), axes, keepdim, x.shape()), share).to(x.dtype());
}

template <class T>
T cumsum_grad(const T& dy, int64_t axis) {
  return dy.rank() == 0 ? dy : backwards(cumsum(backwards(dy, axis), axis), axis);
}

template <>
Tensor prod_grad(const Tensor& dy, const Tensor& x, const Shape& axes, bool keepdim) {
  const Tensor values = in_arithmetic(x);
  const Tensor is_zero = equal(values, number(0, values));
  const Tensor factors = add(values, is_zero);  // 1 in place of 0
  const Tensor others = div(prod(factors, axes, true), factors);
  // Without zeros each element counts; with one, that alone; with more, none.
  const Tensor counts = equal(sum(is_zero, axes, true), is_zero);
  return mul(unreduce(in_arithmetic(dy), axes, keepdim, x.shape()), mul(counts, others)).to(x.dtype());
}

template <>
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

// One scan of sums that stay below the largest -y, instead of e^x Σ dy e^-y, which overflows, or of the logarithms of
// dy's positive and negative parts, which are two scans and lose digits where y is large.
template <>
Tensor logcumsumexp_grad(const Tensor& dy, const Tensor& x, const Tensor& y, int64_t axis) {
  const std::array inputs{in_arithmetic(dy), in_arithmetic(x), in_arithmetic(y)};
  const Tensor from_end = forms::rows(kernels::logcumsumexp_grad, inputs, axis)[0];
  return (x.rank() == 0 ? from_end : backwards(from_end, axis)).to(x.dtype());
}

namespace {

Var filled(Shape shape, int axis, int64_t size, double value, const Var& like) {
  shape[axis] = size;
  return Var(Tensor::full(shape, value, like.dtype(), like.device()));
}

/// Π along `axis`, which is left with one element.
Var product(Var x, int axis) {
  while (x.size(axis) > 1) {
    const int64_t half = x.size(axis) / 2;
    const Var pairs = mul(x.slice(axis, 0, half), x.slice(axis, half, 2 * half));
    x = x.size(axis) % 2 == 0 ? pairs : cat({pairs, x.slice(axis, 2 * half)}, axis);
  }
  return x;
}

/// A scan: after each round each element is that of twice as many (Hillis & Steele 1986). `none` changes no element.
template <class Merge>
Var scanned(Var x, int axis, double none, const Merge& merge) {
  const int64_t size = x.size(axis);
  for (int64_t step = 1; step < size; step *= 2) {
    x = merge(x, cat({filled(x.shape(), axis, step, none, x), x.slice(axis, 0, size - step)}, axis));
  }
  return x;
}

}  // namespace

template <>
Var prod_grad(const Var& dy, const Var& x, const Shape& axes, bool) {
  const auto reduced = reduced_axes("prod", x.shape(), axes);
  const auto forward = [&](const std::vector<Var>& inputs) {
    Var y = in_arithmetic(inputs[0]);
    for (int i = 0; i < x.rank(); i++) {
      if (reduced[static_cast<size_t>(i)]) y = x.size(i) == 0 ? filled(y.shape(), i, 1, 1, y) : product(y, i);
    }
    return std::vector<Var>{y.reshape(dy.shape()).to(x.dtype())};
  };
  return gradients_of_composition(forward, {x}, {dy}, Needs(1))[0];
}

template <>
Var cumprod_grad(const Var& dy, const Var& x, int64_t axis) {
  if (x.rank() == 0) return dy;
  const int along = normalize_axis("cumprod", axis, x.rank());
  const auto forward = [&](const std::vector<Var>& inputs) {
    const auto times = [](const Var& a, const Var& b) { return mul(a, b); };
    return std::vector<Var>{scanned(in_arithmetic(inputs[0]), along, 1, times).to(x.dtype())};
  };
  return gradients_of_composition(forward, {x}, {dy}, Needs(1))[0];
}

template <>
Var logcumsumexp_grad(const Var& dy, const Var& x, const Var&, int64_t axis) {
  if (x.rank() == 0) return dy;
  const int along = normalize_axis("logcumsumexp", axis, x.rank());
  const auto forward = [&](const std::vector<Var>& inputs) {
    const auto plus = [](const Var& a, const Var& b) {
      return logsumexp(cat({a.unsqueeze(0), b.unsqueeze(0)}, 0), {0});
    };
    const double none = -std::numeric_limits<double>::infinity();
    return std::vector<Var>{scanned(in_arithmetic(inputs[0]), along, none, plus).to(x.dtype())};
  };
  return gradients_of_composition(forward, {x}, {dy}, Needs(1))[0];
}

template Tensor unreduce(const Tensor&, const Shape&, bool, const Shape&);
template Var unreduce(const Var&, const Shape&, bool, const Shape&);
template Tensor sum_grad(const Tensor&, const Shape&, bool, const Shape&);
template Var sum_grad(const Var&, const Shape&, bool, const Shape&);
template Tensor mean_grad(const Tensor&, const Shape&, bool, const Shape&);
template Var mean_grad(const Var&, const Shape&, bool, const Shape&);
template Tensor var_grad(const Tensor&, const Tensor&, const Shape&, bool, double);
template Var var_grad(const Var&, const Var&, const Shape&, bool, double);
template Tensor std_grad(const Tensor&, const Tensor&, const Tensor&, const Shape&, bool, double);
template Var std_grad(const Var&, const Var&, const Var&, const Shape&, bool, double);
template Tensor norm_grad(const Tensor&, const Tensor&, const Tensor&, double, const Shape&, bool);
template Var norm_grad(const Var&, const Var&, const Var&, double, const Shape&, bool);
template Tensor logsumexp_grad(const Tensor&, const Tensor&, const Tensor&, const Shape&, bool);
template Var logsumexp_grad(const Var&, const Var&, const Var&, const Shape&, bool);
template Tensor cumsum_grad(const Tensor&, int64_t);
template Var cumsum_grad(const Var&, int64_t);

}  // namespace ashlar::recipes

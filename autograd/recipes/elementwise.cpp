#include "autograd/recipes/elementwise.h"

#include <array>
#include <span>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/values.h"
#include "operators/gated.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

/// 0 beside x
template <class T>
T zero_of(const T& x) {
  return T(Tensor::zeros({}, x.dtype(), x.device()));
}

/// f(x…), summed to `shape`.
template <class F, class T, class... Others>
T in_f32(const Shape& shape, const F& f, const T& x, const Others&... others) {
  if (size_of(x.dtype()) != 2) return sum_to_shape(f(x, others...), shape);
  return sum_to_shape(f(x.to(DType::f32), others.to(DType::f32)...), shape).to(x.dtype());
}

}  // namespace

template <class T>
T pow_base_grad(const T& dy, const T& a, const T& b) {
  const auto gradient = [](const T& g, const T& x, const T& n) {
    return where(eq(value_of(n), 0), zero_of(g), mul(g, mul(n, pow(x, affine(n, 1.0, -1.0)))));
  };
  return in_f32(a.shape(), gradient, dy, a, b);
}

template <class T>
T pow_exponent_grad(const T& dy, const T& a, const T& b) {
  const auto gradient = [](const T& g, const T& x, const T& n) {
    const Tensor is_constant = logical_and(eq(value_of(x), 0), ge(value_of(n), 0));
    return where(is_constant, zero_of(g), mul(g, mul(pow(x, n), log(x))));
  };
  return in_f32(b.shape(), gradient, dy, a, b);
}

template <class T>
T fmod_divisor_grad(const T& dy, const T& a, const T& b) {
  return in_f32(
      b.shape(), [](const T& g, const T& x, const T& n) { return neg(mul(g, trunc(div(x, n)))); }, dy, a, b);
}

template <class T>
T remainder_divisor_grad(const T& dy, const T& a, const T& b) {
  return in_f32(
      b.shape(), [](const T& g, const T& x, const T& n) { return neg(mul(g, floor(div(x, n)))); }, dy, a, b);
}

template <class T>
T atan2_grad(const T& dy, const T& p, const T& a, const T& b, const Shape& shape) {
  const auto gradient = [](const T& g, const T& other, const T& y, const T& x) {
    return div(mul(g, other), add(mul(y, y), mul(x, x)));
  };
  return in_f32(shape, gradient, dy, p, a, b);
}

template <class T>
T hypot_grad(const T& dy, const T& p, const T& y) {
  return in_f32(
      p.shape(), [](const T& g, const T& side, const T& root) { return mul(g, div(side, root)); }, dy, p, y);
}

template <class T>
T where_grad(const T& dy, const Tensor& condition, bool holds, const Shape& shape) {
  const auto gradient = [&](const T& g) {
    return holds ? where(condition, g, zero_of(g)) : where(condition, zero_of(g), g);
  };
  return in_f32(shape, gradient, dy);
}

template <class T>
T lerp_start_grad(const T& dy, const T& weight, const Shape& shape) {
  return in_f32(
      shape, [](const T& g, const T& w) { return mul(g, affine(w, -1.0, 1.0)); }, dy, weight);
}

template <class T>
T lerp_weight_grad(const T& dy, const T& start, const T& end, const Shape& shape) {
  return in_f32(
      shape, [](const T& g, const T& a, const T& b) { return mul(g, sub(b, a)); }, dy, start, end);
}

template <class T>
T scaled_factor_grad(const T& dy, const T& f, double value, const Shape& shape) {
  return in_f32(
      shape, [&](const T& g, const T& x) { return affine(mul(g, x), value, 0.0); }, dy, f);
}

template <class T>
T scaled_dividend_grad(const T& dy, const T& b, double value, const Shape& shape) {
  return in_f32(
      shape, [&](const T& g, const T& x) { return affine(div(g, x), value, 0.0); }, dy, b);
}

template <class T>
T scaled_divisor_grad(const T& dy, const T& a, const T& b, double value) {
  const auto gradient = [&](const T& g, const T& x, const T& n) {
    return affine(div(mul(g, div(x, n)), n), -value, 0.0);
  };
  return in_f32(b.shape(), gradient, dy, a, b);
}

namespace {
/// The weights along axis 1 of x.
template <class T>
T of_channels(const T& weight, const T& x) {
  Shape shape = Shape::filled(x.rank(), 1);
  if (weight.numel() != 1) shape[1] = weight.numel();
  return weight.reshape(shape);
}
}  // namespace

template <class T>
T prelu_input_grad(const T& dy, const T& x, const T& weight) {
  const auto gradient = [](const T& g, const T& in, const T& w) {
    if constexpr (std::same_as<T, Tensor>) {
      return prelu_slope(g, in, w);
    } else {
      return where(gt(value_of(in), 0), g, mul(g, w));
    }
  };
  return in_f32(x.shape(), gradient, dy, x, of_channels(weight, x));
}

template <class T>
T prelu_weight_grad(const T& dy, const T& x, const T& weight) {
  const Shape shape = of_channels(weight, x).shape();
  const auto gradient = [&](const T& g, const T& in) {
    if constexpr (std::same_as<T, Tensor>) {
      return prelu_weight_sums(g, in, weight.numel()).reshape(shape);
    } else {
      return where(gt(value_of(in), 0), zero_of(g), mul(g, in));
    }
  };
  return in_f32(shape, gradient, dy, x).reshape(weight.shape());
}

template <class T>
T glu_grad(const T& dy, const T& x, int64_t axis) {
  const int64_t size = x.size(axis);
  const auto gradient = [&](const T& g, const T& in) {
    if constexpr (std::same_as<T, Tensor>) {
      return glu_slope(g, in, axis);
    } else {
      const T a = in.slice(axis, 0, size / 2), b = in.slice(axis, size / 2, size);
      const std::array halves{mul(g, sigmoid(b)), sigmoid_grad(mul(g, a), b)};
      return cat(std::span<const T>(halves), axis);
    }
  };
  return in_f32(x.shape(), gradient, dy, x);
}

template Tensor prelu_input_grad(const Tensor&, const Tensor&, const Tensor&);
template Var prelu_input_grad(const Var&, const Var&, const Var&);
template Tensor prelu_weight_grad(const Tensor&, const Tensor&, const Tensor&);
template Var prelu_weight_grad(const Var&, const Var&, const Var&);
template Tensor glu_grad(const Tensor&, const Tensor&, int64_t);
template Var glu_grad(const Var&, const Var&, int64_t);
template Tensor pow_base_grad(const Tensor&, const Tensor&, const Tensor&);
template Var pow_base_grad(const Var&, const Var&, const Var&);
template Tensor pow_exponent_grad(const Tensor&, const Tensor&, const Tensor&);
template Var pow_exponent_grad(const Var&, const Var&, const Var&);
template Tensor fmod_divisor_grad(const Tensor&, const Tensor&, const Tensor&);
template Var fmod_divisor_grad(const Var&, const Var&, const Var&);
template Tensor remainder_divisor_grad(const Tensor&, const Tensor&, const Tensor&);
template Var remainder_divisor_grad(const Var&, const Var&, const Var&);
template Tensor atan2_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Shape&);
template Var atan2_grad(const Var&, const Var&, const Var&, const Var&, const Shape&);
template Tensor hypot_grad(const Tensor&, const Tensor&, const Tensor&);
template Var hypot_grad(const Var&, const Var&, const Var&);
template Tensor where_grad(const Tensor&, const Tensor&, bool, const Shape&);
template Var where_grad(const Var&, const Tensor&, bool, const Shape&);
template Tensor lerp_start_grad(const Tensor&, const Tensor&, const Shape&);
template Var lerp_start_grad(const Var&, const Var&, const Shape&);
template Tensor lerp_weight_grad(const Tensor&, const Tensor&, const Tensor&, const Shape&);
template Var lerp_weight_grad(const Var&, const Var&, const Var&, const Shape&);
template Tensor scaled_factor_grad(const Tensor&, const Tensor&, double, const Shape&);
template Var scaled_factor_grad(const Var&, const Var&, double, const Shape&);
template Tensor scaled_dividend_grad(const Tensor&, const Tensor&, double, const Shape&);
template Var scaled_dividend_grad(const Var&, const Var&, double, const Shape&);
template Tensor scaled_divisor_grad(const Tensor&, const Tensor&, const Tensor&, double);
template Var scaled_divisor_grad(const Var&, const Var&, const Var&, double);

}  // namespace ashlar::recipes

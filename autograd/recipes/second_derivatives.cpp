#include "autograd/recipes/second_derivatives.h"

#include <numbers>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/recipes/values.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

template <class T>
T log_second(const T& p, const T& x) {
  return neg(log_grad(log_grad(p, x), x));
}

template <class T>
T sqrt_second(const T& p, const T& x) {
  return affine(div(sqrt_grad(p, x), x), -0.5, 0.0);
}

template <class T>
T rsqrt_second(const T& p, const T& x) {
  return affine(div(rsqrt_grad(p, x), x), -1.5, 0.0);
}

template <class T>
T tanh_second(const T& p, const T& x) {
  return affine(mul(tanh_grad(p, x), tanh(x)), -2.0, 0.0);
}

template <class T>
T sigmoid_second(const T& p, const T& x) {
  return mul(sigmoid_grad(p, x), affine(sigmoid(x), -2.0, 1.0));
}

template <class T>
T gelu_second(const T& p, const T& x) {
  // x² may overflow in f16, and e is 0 then: so e is multiplied by x twice, and not by x².
  const T e = exp(affine(mul(x, x), -0.5, 0.0));
  constexpr double kDensity = 0.3989422804014327;  // 1 / √(2π)
  return mul(p, affine(sub(add(e, e), mul(x, mul(x, e))), kDensity, 0.0));
}

template <class T>
T silu_second(const T& p, const T& x) {
  return mul(sigmoid_grad(p, x), affine(mul(x, affine(sigmoid(x), -2.0, 1.0)), 1.0, 2.0));
}

namespace {

/// f(x) in f32 where x has 16 bits.
template <class T, class F>
T in_f32(const F& f, const T& p, const T& x) {
  if (size_of(x.dtype()) != 2) return f(p, x);
  return f(p.to(DType::f32), x.to(DType::f32)).to(x.dtype());
}

/// p where x isn't above 0
template <class T>
T below_zero(const T& p, const T& x) {
  return where(ashlar::gt(value_of(x), 0), number(0, p), p);
}

}  // namespace

template <class T>
T gelu_tanh_second(const T& p, const T& x) {
  const auto f = [](const T& upstream, const T& in) {
    constexpr double kLinear = 1.5957691216057308, kCubic = 0.0713548162726009;
    const T held = clamp(in, -30.0, 30.0);  // beyond, s' is 0 and u'² may be too large
    const T square = mul(held, held), u = mul(held, affine(square, kCubic, kLinear));
    const T s = sigmoid(u), u1 = affine(square, 3 * kCubic, kLinear), u2 = affine(held, 6 * kCubic, 0.0);
    const T bend = add(mul(affine(s, -2.0, 1.0), mul(u1, u1)), u2);
    return sigmoid_grad(mul(upstream, add(add(u1, u1), mul(held, bend))), u);
  };
  return in_f32(f, p, x);
}

template <class T>
T mish_second(const T& p, const T& x) {
  const auto f = [](const T& upstream, const T& in) {
    const T w = softplus(in, 1.0, 20.0), s = sigmoid(in), t = tanh(w);
    const T bend = mul(s, sub(affine(s, -1.0, 1.0), affine(mul(t, s), 2.0, 0.0)));
    return tanh_grad(mul(upstream, add(add(s, s), mul(clamp(in, -1e6, 1e6), bend))), w);
  };
  return in_f32(f, p, x);
}

template <class T>
T hardswish_second(const T& p, const T& x) {
  return affine(hardsigmoid_grad(p, x), 2.0, 0.0);
}

template <class T>
T softsign_second(const T& p, const T& x) {
  return div(mul(softsign_grad(p, x), affine(sign(x), -2.0, 0.0)), affine(abs(x), 1.0, 1.0));
}

template <class T>
T selu_second(const T& p, const T& x) {
  return below_zero(selu_grad(p, x), x);
}

template <class T>
T elu_second(const T& p, const T& x, double alpha) {
  return below_zero(elu_grad(p, x, alpha), x);
}

template <class T>
T celu_second(const T& p, const T& x, double alpha) {
  return below_zero(affine(celu_grad(p, x, alpha), 1 / alpha, 0.0), x);
}

template <class T>
T softplus_second(const T& p, const T& x, double beta, double threshold) {
  const T scaled = affine(x, beta, 0.0);
  const T bend = sigmoid_grad(affine(p, beta, 0.0), scaled);
  return where(ashlar::gt(value_of(scaled), threshold), number(0, bend), bend);
}

template <class T>
T digamma_second(const T& p, const T& x) {
  // ψ''(x) = ψ''(1 - x) - 2π³ cot(πx) / sin²(πx) takes x to above 1/2, ψ''(x) = ψ''(x + 1) - 2 / x³ to above 8.
  constexpr double kPi = std::numbers::pi;
  const Tensor is_low = ashlar::lt(value_of(x), number(0.5, value_of(x)));
  T high = where(is_low, T(affine(x, -1.0, 1.0)), x);
  T sum = number(0, x);
  for (int step = 0; step < 8; step++) {
    const T inverse = reciprocal(high);
    sum = add(sum, mul(inverse, mul(inverse, inverse)));
    high = affine(high, 1.0, 1.0);
  }
  // -1/v² - 1/v³ - 1/(2v⁴) + 1/(6v⁶) - 1/(6v⁸)
  const T inverse = reciprocal(high), square = mul(inverse, inverse);
  T series = affine(square, -1.0 / 6, 1.0 / 6);
  series = affine(mul(series, square), 1.0, -0.5);
  series = sub(affine(mul(series, square), 1.0, -1.0), inverse);
  const T of_high = sub(mul(series, square), affine(sum, 2.0, 0.0));
  // The period is 1; where nothing is reflected, any place without a pole.
  const T angle = affine(where(is_low, T(sub(x, round(x))), number(0.25, x)), kPi, 0.0);
  const T sine = sin(angle);
  const T reflected = affine(div(cos(angle), mul(sine, mul(sine, sine))), -2 * kPi * kPi * kPi, 0.0);
  return mul(p, where(is_low, T(add(of_high, reflected)), of_high));
}

template Tensor log_second(const Tensor&, const Tensor&);
template Var log_second(const Var&, const Var&);
template Tensor sqrt_second(const Tensor&, const Tensor&);
template Var sqrt_second(const Var&, const Var&);
template Tensor rsqrt_second(const Tensor&, const Tensor&);
template Var rsqrt_second(const Var&, const Var&);
template Tensor tanh_second(const Tensor&, const Tensor&);
template Var tanh_second(const Var&, const Var&);
template Tensor sigmoid_second(const Tensor&, const Tensor&);
template Var sigmoid_second(const Var&, const Var&);
template Tensor gelu_second(const Tensor&, const Tensor&);
template Var gelu_second(const Var&, const Var&);
template Tensor silu_second(const Tensor&, const Tensor&);
template Var silu_second(const Var&, const Var&);
template Tensor gelu_tanh_second(const Tensor&, const Tensor&);
template Var gelu_tanh_second(const Var&, const Var&);
template Tensor mish_second(const Tensor&, const Tensor&);
template Var mish_second(const Var&, const Var&);
template Tensor hardswish_second(const Tensor&, const Tensor&);
template Var hardswish_second(const Var&, const Var&);
template Tensor softsign_second(const Tensor&, const Tensor&);
template Var softsign_second(const Var&, const Var&);
template Tensor selu_second(const Tensor&, const Tensor&);
template Var selu_second(const Var&, const Var&);
template Tensor digamma_second(const Tensor&, const Tensor&);
template Var digamma_second(const Var&, const Var&);
template Tensor elu_second(const Tensor&, const Tensor&, double);
template Var elu_second(const Var&, const Var&, double);
template Tensor celu_second(const Tensor&, const Tensor&, double);
template Var celu_second(const Var&, const Var&, double);
template Tensor softplus_second(const Tensor&, const Tensor&, double, double);
template Var softplus_second(const Var&, const Var&, double, double);

}  // namespace ashlar::recipes

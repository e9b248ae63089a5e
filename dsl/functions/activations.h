// Activations of networks, as PyTorch defines and names them; NaN comes through. How far each may be off:
// docs/device-functions.md.
#pragma once

#include "dsl/functions/error_function.h"
#include "dsl/functions/exponential.h"
#include "dsl/functions/hyperbolic.h"
#include "dsl/functions/logarithm.h"

namespace ashlar::dsl {

// sigmoid(x) = 1 / (1 + e^-|x|) for x >= 0, e^-|x| / (1 + e^-|x|) below: no overflow on either side
inline Value sigmoid(const Value& operand) {
  const Value x = detail::float_operand(operand, "sigmoid");
  const Value e = exp(-abs(x));
  return select(x >= 0, 1.0, e) * reciprocal(1.0 + e);
}
// logit(x) = ln(x / (1 - x)), the inverse of sigmoid: 2 artanh(2x - 1) around its zero at 1/2
inline Value logit(const Value& operand) {
  const Value x = detail::float_operand(operand, "logit");
  return select(abs(x - 0.5) < 0.25, 2.0 * atanh(2.0 * x - 1.0), log(x / (1.0 - x)));
}
// ln sigmoid(x) = min(x, 0) - ln(1 + e^-|x|)
inline Value logsigmoid(const Value& operand) {
  const Value x = detail::float_operand(operand, "logsigmoid");
  return min(x, 0) - log1p_to_one(exp_to_one(-abs(x)));
}
// softplus(x) = ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)
inline Value softplus(const Value& operand) {
  const Value x = detail::float_operand(operand, "softplus");
  return max(x, 0) + log1p_to_one(exp_to_one(-abs(x)));
}
// softsign(x) = x / (1 + |x|)
inline Value softsign(const Value& operand) {
  const Value x = detail::float_operand(operand, "softsign");
  return x / (1.0 + abs(x));
}
// silu(x) = x · sigmoid(x)
inline Value silu(const Value& operand) {
  const Value x = detail::float_operand(operand, "silu");
  return x * sigmoid(x);
}
namespace detail {
/// tanh(softplus(x)) = n / (n + 2) with n = e^x (e^x + 2), both over e^2x where that could overflow.
struct MishQuotient {
  Value e, above, below;
  explicit MishQuotient(const Value& x)
      : e(exp(-abs(x))),
        above(select(x >= 0, 1.0 + 2.0 * e, e * (e + 2.0))),
        below(above + select(x >= 0, 2.0 * e * e, 2.0)) {}
};
}  // namespace detail
// mish(x) = x tanh(softplus(x)) (Misra 2019)
inline Value mish(const Value& operand) {
  const Value x = detail::float_operand(operand, "mish");
  const detail::MishQuotient t(x);
  return as_written(x * t.above / t.below);
}
// Its derivative: t + x (1 - t²) sigmoid(x) = t + 4 x e^x (1 + e^x) / (n + 2)² with t = n / (n + 2)
inline Value mish_slope(const Value& operand) {
  const Value x = detail::float_operand(operand, "mish_slope");
  const detail::MishQuotient t(x);
  const Value part = reciprocal(t.below);
  const Value q = select(x >= 0, t.e * t.e, t.e) * (1.0 + t.e) * part;  // 0 before x² overflows
  return (t.above + 4.0 * min(max(x, -1e6), 1e6) * q) * part;
}
// gelu(x) = x Φ(x), the exact form (Hendrycks & Gimpel 2016)
inline Value gelu(const Value& operand) {
  const Value x = detail::float_operand(operand, "gelu");
  return x * normal_cdf(x);
}
// Its approximation: x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))) = x sigmoid(2 √(2/π) (x + 0.044715 x³))
inline Value gelu_tanh(const Value& operand) {
  const Value x = detail::float_operand(operand, "gelu_tanh");
  return x * sigmoid(x * (1.5957691216057308 + 0.0713548162726009 * x * x));
}
// elu(x) = x above 0, alpha (e^x - 1) below (Clevert et al. 2016)
inline Value elu(const Value& operand, const Value& alpha = 1.0) {
  const Value x = detail::float_operand(operand, "elu");
  return select(x > 0, x, alpha * expm1(x));
}
// celu(x) = x above 0, alpha (e^(x/alpha) - 1) below (Barron 2017)
inline Value celu(const Value& operand, const Value& alpha = 1.0) {
  const Value x = detail::float_operand(operand, "celu");
  return select(x > 0, x, alpha * expm1(x / alpha));
}
// selu(x) = scale elu(x, alpha), both constants such that mean 0 and variance 1 stay (Klambauer et al. 2017)
inline constexpr double kSeluScale = 1.0507009873554804934, kSeluAlpha = 1.6732632423543772848;
inline Value selu(const Value& operand) {
  const Value x = detail::float_operand(operand, "selu");
  return select(x > 0, kSeluScale * x, kSeluScale * kSeluAlpha * expm1(x));
}
inline Value leaky_relu(const Value& x, const Value& slope = 0.01) { return select(!(x <= 0), x, slope * x); }
inline Value relu6(const Value& x) { return clamp(x, 0, 6); }
inline Value hardtanh(const Value& x, const Value& low = -1.0, const Value& high = 1.0) { return clamp(x, low, high); }
// hardsigmoid(x) = relu6(x + 3) / 6
inline Value hardsigmoid(const Value& operand) {
  return relu6(detail::float_operand(operand, "hardsigmoid") + 3.0) * (1.0 / 6);
}
// x hardsigmoid(x); from 3 on x itself, since Halide multiplies by 6 first, which overflows
inline Value hardswish(const Value& operand) {
  const Value x = detail::float_operand(operand, "hardswish");
  return x * select(x < 3.0, hardsigmoid(x), 1.0);
}
// x above the threshold or NaN, else `otherwise`
inline Value threshold(const Value& x, const Value& threshold, const Value& otherwise) {
  return select(x <= threshold, otherwise, x);
}
inline Value tanhshrink(const Value& x) { return x - tanh(x); }
// x where |x| > lambda or NaN, else 0; softshrink moves it towards 0 by lambda
inline Value hardshrink(const Value& x, const Value& lambda = 0.5) { return select(!(abs(x) <= lambda), x, 0.0); }
inline Value softshrink(const Value& x, const Value& lambda = 0.5) {
  return select(!(x <= lambda), x - lambda, select(x < -lambda, x + lambda, 0.0));
}
/// -1, 0 or 1 by the sign; 0 for NaN, as PyTorch's.
inline Value sign(const Value& x) {
  const Value one = Value(1).as(x.type()), zero = Value(0).as(x.type());
  return select(x > 0, one, select(x < 0, zero - one, zero));
}

}  // namespace ashlar::dsl

// The error function, its complement and the normal distribution.
#include "dsl/functions/error_function.h"

#include "dsl/functions/exponential.h"
#include "dsl/functions/logarithm.h"
#include "dsl/functions/native.h"
#include "dsl/functions/parts.h"

namespace ashlar::dsl {

using namespace parts;

namespace {

// erf(x) / x = 1 + p(x²) for |x| <= 0.8; p, and P below, fitted for the least relative error (Lawson's algorithm: 1e-9)
Expr erf_near_zero(const Expr& x) {
  constexpr float kSeries[] = {0.128379166f,   -0.376126379f,    0.11283768f,    -0.0268639196f,
                               0.00521375239f, -0.000830746721f, 9.17061552e-05f};
  return add(x, x * polynomial(x * x, kSeries));
}

// erfc(x) = e^-x² t P(9.37 t - 1.72) with t = 1 / (x + 3), for x in [0.45, 10.1]; `e` is the exponential.
Expr erfc_far(const Expr& x, const Expr& e) {
  constexpr float kSeries[] = {1.16712952f,   0.646499395f,     0.282813936f,     0.0946633592f,    0.022302473f,
                               0.0027454833f, -0.000238334862f, -0.000147234387f, -5.75255126e-06f, 5.49177639e-06f};
  // The roundings of x + 3 and of the quotient are put right.
  const Expr d = add(x, 3.0f), d_rest = sub(x, sub(d, 3.0f)), quotient = div(1.0f, d);
  const Pair back = two_product(quotient, d);
  const Expr lost = sub(sub(sub(1.0f, back.high), back.low), mul(quotient, d_rest));
  const Expr t = add(quotient, mul(quotient, lost));
  return mul(mul(t, polynomial((4.22176165f - 1.71502591f * x) * t, kSeries)), e);
}

// erf(x) = x P(x²) / Q(x²), fitted in (0, 3.92] for the least relative error (Lawson's algorithm: 2e-8), held there,
// where f32 has reached ±1, because polynomials overflow far out: within 7 ULP, without an exponential.
Expr erf_quickly(const Expr& x) {
  constexpr float kAbove[] = {1.1283791f, 0.19040771f, 0.052748892f, 0.0037656713f, 0.00028488406f, 2.0500795e-06f};
  constexpr float kBelow[] = {1.0f, 0.50207716f, 0.1141096f, 0.014969325f, 0.0011625488f, 3.8091704e-05f};
  const Expr held = held_within(x, -3.92f, 3.92f), s = held * held;
  return nan_from(x, held * polynomial(s, kAbove) / polynomial(s, kBelow));
}

}  // namespace

Value erf(const Value& value) {
  const Expr x = detail::float_operand(value, "erf").expr();
  if (x.type() != Halide::Float(32)) return Halide::select((Value(x) == Value(x)).expr(), Halide::erf(x), x);
  const Expr size = held_within(magnitude(x), 0.0f, 4.0f), near = erf_near_zero(size);
  const auto [k, power] = exponential(mul(-size, size));
  const Expr far = sub(1.0f, erfc_far(size, mul(power, power_of_two(k))));
  return nan_from(x, with_sign(Halide::select(less(size, 0.78f), near, far), x));
}

// 1 - erf(x) near 0, and 2 - erfc(-x) below. x² is in two parts, since e^-x² multiplies its error by up to 100:
// x = h + l, x² = h² + l (x + h), with twelve digits in h.
Value erfc(const Value& value) {
  const Expr x = detail::f32_operand(value, "erfc").expr();
  const Expr size = held_within(magnitude(x), 0.0f, 10.1f);
  const Pair split = halves(size);
  const auto [k, power] = exponential(mul(-split.high, split.high));
  const Expr d = mul(-split.low, add(size, split.high));                             // |d| < 0.05
  const Expr further = d + d * d * (0.5f + d * (0.166666667f + d * 0.0416666667f));  // e^d - 1
  const Expr first = erfc_far(size, power), beyond = times_power(add(first, mul(first, further)), k);
  const Expr far = Halide::select(is_negative(x), sub(2.0f, beyond), beyond);
  return nan_from(x, Halide::select(less(magnitude(x), 0.78f), sub(1.0f, erf_near_zero(x)), far));
}

// erfinv(y) = y P(w - 2.5) for w = -ln(1 - y²) up to 5, y Q(√w - 3) beyond (after Giles 2011, "Approximating the erfinv
// function"); P and Q are fitted for the least relative error (Lawson's algorithm: 8e-8, 3e-8).
Value erfinv(const Value& value) {
  const Expr y = detail::f32_operand(value, "erfinv").expr(), size = magnitude(y);
  constexpr float kNear[] = {1.50140941f,      0.24664028f,     -0.00417738687f, -0.0012527419f,  0.000218344445f,
                             -4.96334542e-06f, -3.4627044e-06f, 4.66170093e-07f, 2.32326229e-08f, -8.79101592e-09f};
  constexpr float kFar[] = {2.83297682f,     1.00167501f,    0.00944530219f,   -0.00763725489f,  0.00568682421f,
                            -0.00359749328f, 0.00148556137f, -5.68444229e-05f, -0.000310031348f, 0.000115951734f};
  const Expr held = held_within(size, 0.0f, 0.99999994f);
  const Expr w = -log(Value(mul(sub(1.0f, held), add(1.0f, held)))).expr();
  const Expr near = polynomial(sub(w, 2.5f), kNear), far = polynomial(sub(Halide::sqrt(w), 3.0f), kFar);
  const Expr result = mul(size, Halide::select(less(w, 5.0f), near, far)), one = word(0x3f800000u);
  return choose_bits(bits(size) > one, kNan, with_sign(choose_bits(bits(size) == one, kInfinity, result), y));
}

Value reciprocal(const Value& operand) {
  const Value x = detail::float_operand(operand, "reciprocal");
  if (!is_cuda_f32(x)) return 1.0 / x;
  return device_function("llvm.nvvm.rcp.approx.ftz.f", {x.expr()});
}

// On a GPU Φ(-|x|) = 2^p(|x|), p a polynomial fitted to log2 Φ(-a) in [0, 5.6] for the least absolute error of Φ
// (Lawson's algorithm: 3e-8). Beyond, its negative leading coefficient takes it to 2^-∞.
Value normal_cdf(const Value& operand) {
  const Value value = detail::float_operand(operand, "normal_cdf");
  const Expr x = value.expr();
  if (!is_gpu_f32(x)) {
    const Expr argument = (value * 0.70710678118654752).expr();
    const Value error = x.type() == Halide::Float(32) ? Value(erf_quickly(argument)) : erf(Value(argument));
    return sum_as_written(0.5, 0.5 * error);
  }
  constexpr float kCoefficients[] = {-2.726731281654793e-06f,  3.814390584011562e-05f, -0.00018057870329357684f,
                                     -0.00014994980301707983f, 0.0070799728855490685f, -0.052507612854242325f,
                                     -0.45920419692993164f,    -1.1511057615280151f,   -1.0f};
  const Expr a = Halide::abs(x);
  Expr p = kCoefficients[0];
  for (size_t i = 1; i < std::size(kCoefficients); i++) p = p * a + kCoefficients[i];
  const Expr tail = native_exp2(p);
  return Halide::select(x < 0.0f, tail, 1.0f - tail);
}

}  // namespace ashlar::dsl

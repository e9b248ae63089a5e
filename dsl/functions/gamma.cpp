// The same on every target, from its logarithm, sine and cosine.
#include "dsl/functions/gamma.h"

#include "dsl/functions/exponential.h"
#include "dsl/functions/logarithm.h"
#include "dsl/functions/parts.h"
#include "dsl/functions/rounding.h"
#include "dsl/functions/trigonometric.h"

namespace ashlar::dsl {

using namespace parts;

namespace {

constexpr float kPi = 3.14159265f, kLogPi = 1.14472989f;
constexpr int kShifts = 6;
constexpr float kFar = kShifts;  // from where on the series in 1/x are good

Expr logarithm(const Expr& x) { return log(Value(x)).expr(); }
Expr sine(const Expr& x) { return sin(Value(x)).expr(); }
Expr cosine(const Expr& x) { return cos(Value(x)).expr(); }

// π times the signed distance of x from the nearest integer: sin(πx) = ±sin of it, tan(πx) = tan of it.
Expr turns_from_integer(const Expr& x) { return mul(kPi, sub(x, round(Value(x)).expr())); }

Expr is_integer(const Expr& x) { return (Value(x) == round(Value(x))).expr(); }

// The n >= 0 for which the series are good in y + n. Both y + n and the sum over the steps go by it: y + k < 6,
// rounded, needn't hold for as many k.
Expr shifts_up(const Expr& y) { return ceil(Value(Halide::select(less(y, kFar), sub(kFar, y), 0.0f))).expr(); }

// Σ f(1 / (y + k)) over 0 <= k < n
template <class F>
Expr sum_of_shifts(const Expr& y, const Expr& n, F f) {
  Expr sum = 0.0f;
  for (int k = kShifts - 1; k >= 0; k--) {
    const float shift = static_cast<float>(k);
    sum = sum + Halide::select(less(shift, n), f(div(1.0f, add(y, shift))), 0.0f);
  }
  return sum;
}

}  // namespace

// For 0 < |x| < 1/2  ln Γ(1 + x) - ln |x|;  around the zeros at 1 and 2 ln Γ(1 + t) = t P(t) and ln Γ(2 + s) = s Q(s);
// up to 8 ln Γ(x) = ln Γ(x - n) + ln (x - 1)(x - 2)…(x - n) with x - n in [2, 3); beyond Stirling's series. P, Q and W
// are fitted for the least relative error (Lawson's algorithm: 2e-9, 5e-9, 6e-11). Below -1/2
// ln |Γ(-a)| = ln π - ln a |sin πa| - ln Γ(a).
Value lgamma(const Value& value) {
  const Expr x = detail::f32_operand(value, "lgamma").expr();
  constexpr float kP[] = {-0.577215672f,  0.822467029f,  -0.400685161f, 0.270581245f,  -0.207414657f,
                          0.169557333f,   -0.143369138f, 0.125238135f,  -0.118787162f, 0.104677089f,
                          -0.0503982157f, 0.0529169887f, -0.177895457f, 0.156965226f};
  constexpr float kQ[] = {0.422784328f,   0.322467029f,    -0.0673524886f,  0.0205813199f,    -0.00738275796f,
                          0.00288425223f, -0.00120451767f, 0.000541313901f, -0.000220893518f, 4.95978311e-05f};
  constexpr float kW[] = {0.0833333358f, -0.00277768169f, 0.000779192487f};
  constexpr float kHalfLog2PiMinusHalf = 0.418938533f;
  const Expr a = magnitude(x), is_near = less(a, 0.5f), is_far = !less(a, 8.0f);

  const Expr held = held_within(a, 0.0f, 8.0f);
  const Expr steps = held_within(sub(floor(Value(held)).expr(), 2.0f), 0.0f, 5.0f);
  Expr product = 1.0f;
  for (int k = 1; k <= 5; k++) {
    const float step = static_cast<float>(k);
    product = mul(product, Halide::select(less(steps, step), 1.0f, sub(held, step)));
  }
  const Expr logarithm_of = logarithm(Halide::select(is_near || is_far, a, product));

  const Expr t = held_within(Halide::select(is_near, x, sub(held, 1.0f)), -0.5f, 0.5f);
  const Expr near_one = add(mul(t, polynomial(t, kP)), Halide::select(is_near, -logarithm_of, 0.0f));
  const Expr s = held_within(sub(sub(held, steps), 2.0f), -0.5f, 1.0f);
  const Expr near_two = add(mul(s, polynomial(s, kQ)), logarithm_of);
  const Expr inverse = div(1.0f, Halide::select(is_far, a, 8.0f));
  const Expr far = add(mul(sub(a, 0.5f), sub(logarithm_of, 1.0f)),
                       add(kHalfLog2PiMinusHalf, mul(inverse, polynomial(inverse * inverse, kW))));
  Expr result = Halide::select(less(a, 1.5f), near_one, is_far, far, near_two);

  const Expr sine_of = magnitude(sine(turns_from_integer(a)));
  const Expr reflected = sub(sub(kLogPi, logarithm(mul(a, sine_of))), result);
  result = choose(is_negative(x) && !is_near, reflected, result);
  const Expr is_pole = is_infinite(x) || is_zero(x) || (is_negative(x) && is_integer(x));
  return nan_from(x, choose_bits(is_pole, kInfinity, result));
}

namespace {

// Γ(y) = value · 2^k for y > -1/2. Up to 8 from Γ(2 + s), which is fitted for the least relative error (Lawson's
// algorithm: 8e-9): (y - 1)(y - 2)…(y - n) Γ(y - n) above, Γ(y + 1) / y below. Beyond by Stirling's formula
// Γ(y) = √(2π) y^(y - 1/2) e^(-y + W(1/y)), as a power of two whose exponent is in two floats; W as in lgamma.
Exponential gamma_of(const Expr& y) {
  constexpr float kAtTwo[] = {1.0f,           0.422784388f,     0.41184029f,   0.0815748349f,
                              0.074250713f,   -0.000243664952f, 0.0111247245f, -0.00294089247f,
                              0.00227202056f, -0.00088138046f,  0.00021896699f};
  constexpr float kW[] = {0.0833333358f, -0.00277768169f, 0.000779192487f};
  constexpr float kRootOf2Pi = 2.50662827f, kLog2e = 1.44269502f, kLog2eRest = 1.92596302e-8f;
  const Expr is_far = !less(y, 8.0f), held = held_within(y, -0.5f, 8.0f);
  const Expr steps = held_within(sub(floor(Value(held)).expr(), 2.0f), 0.0f, 5.0f);
  Expr product = 1.0f;
  for (int k = 1; k <= 5; k++) {
    const float step = static_cast<float>(k);
    product = mul(product, Halide::select(less(steps, step), 1.0f, sub(held, step)));
  }
  const Expr below_one = less(held, 1.0f), below_two = less(held, 2.0f);
  const Expr s = Halide::select(below_one, held, below_two, sub(held, 1.0f), sub(sub(held, steps), 2.0f));
  const Expr divisor = Halide::select(below_one, mul(held, add(1.0f, held)), below_two, held, 1.0f);
  const Expr near = div(mul(polynomial(s, kAtTwo), product), divisor);

  const Expr a = held_within(y, 8.0f, 48.0f), inverse = div(1.0f, a), power = sub(a, 0.5f);
  const Pair logarithm = log2_in_two(a), first = two_product(power, logarithm.high), second = two_product(a, kLog2e);
  const Pair sum = two_sum(first.high, -second.high);
  const Expr correction = mul(kLog2e, mul(inverse, polynomial(inverse * inverse, kW)));
  const Expr rest = add(add(sum.low, sub(first.low, second.low)),
                        add(sub(mul(power, logarithm.low), mul(a, kLog2eRest)), correction));
  const auto [k, far] = exp2_of(sum.high, rest);
  return {Halide::select(is_far, k, 0), Halide::select(is_far, mul(kRootOf2Pi, far), near)};
}

}  // namespace

// Below -1/2  Γ(-a) = -π / (a sin(πa) Γ(a))
Value tgamma(const Value& value) {
  const Expr x = detail::f32_operand(value, "tgamma").expr(), a = magnitude(x);
  const Expr is_reflected = less(x, -0.5f);
  const auto [k, gamma] = gamma_of(Halide::select(is_reflected, a, x));
  const Expr reflected = div(-kPi, mul(mul(a, sinpi(Value(a)).expr()), gamma));
  const Expr result = times_power(Halide::select(is_reflected, reflected, gamma), Halide::select(is_reflected, -k, k));
  const Expr has_none = is_negative(x) && !is_zero(x) && (is_infinite(x) || is_integer(x));
  const Expr special = choose_bits(has_none, kNan, choose(is_zero(x), with_sign(real(word(kInfinity)), x), result));
  return nan_from(x, special);
}

// ψ(x) = ψ(x + n) - Σ 1 / (x + k), ψ(z) = ln z - 1/(2z) - 1/(12z²) + 1/(120z⁴) - 1/(252z⁶) + …; for x <= 0
// ψ(x) = ψ(1 - x) - π / tan(πx)
Value digamma(const Value& value) {
  const Expr x = detail::f32_operand(value, "digamma").expr();
  constexpr float kSeries[] = {1.0f / 12, -1.0f / 120, 1.0f / 252, -1.0f / 240};
  const Expr y = Halide::select(is_negative(x), sub(1.0f, x), x);
  const Expr n = shifts_up(y), z = add(y, n), inverse = div(1.0f, z), square = inverse * inverse;
  const Expr above = sub(sub(logarithm(z), 0.5f * inverse), square * polynomial(square, kSeries));
  const Expr positive = sub(above, sum_of_shifts(y, n, [](const Expr& part) { return part; }));
  const Expr turns = turns_from_integer(x);
  const Expr reflected = sub(positive, div(mul(kPi, cosine(turns)), sine(turns)));
  Expr result = choose(is_negative(x), reflected, positive);
  result = choose_bits(is_negative(x) && (is_infinite(x) || is_integer(x)), kNan, result);
  return nan_from(x, choose(is_zero(x), times_sign(real(word(kInfinity | kSign)), x), result));
}

// ψ'(x) = ψ'(x + n) + Σ 1 / (x + k)², ψ'(z) = 1/z + 1/(2z²) + 1/(6z³) - 1/(30z⁵) + 1/(42z⁷) - …; for x <= 0
// ψ'(x) = π² / sin²(πx) - ψ'(1 - x)
Value trigamma(const Value& value) {
  const Expr x = detail::f32_operand(value, "trigamma").expr();
  constexpr float kSeries[] = {1.0f / 6, -1.0f / 30, 1.0f / 42, -1.0f / 30};
  const Expr y = Halide::select(is_negative(x), sub(1.0f, x), x);
  const Expr n = shifts_up(y), inverse = div(1.0f, add(y, n)), square = inverse * inverse;
  const Expr above = inverse + (0.5f * square + square * inverse * polynomial(square, kSeries));
  const Expr positive = add(above, sum_of_shifts(y, n, [](const Expr& part) { return mul(part, part); }));
  const Expr quotient = div(kPi, sine(turns_from_integer(x)));
  const Expr result = choose(is_negative(x), sub(mul(quotient, quotient), positive), positive);
  const Expr is_pole = is_zero(x) || (is_negative(x) && is_integer(x) && !is_infinite(x));
  return nan_from(x, choose_bits(is_pole, kInfinity, choose_bits(is_negative(x) && is_infinite(x), kNan, result)));
}

}  // namespace ashlar::dsl

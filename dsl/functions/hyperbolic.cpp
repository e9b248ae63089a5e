// The same on every target; polynomials fitted for the least relative error (Lawson's algorithm).
#include "dsl/functions/hyperbolic.h"

#include "dsl/functions/error_function.h"
#include "dsl/functions/exponential.h"
#include "dsl/functions/logarithm.h"
#include "dsl/functions/parts.h"

namespace ashlar::dsl {

using namespace parts;

namespace {
// e^size / 2 without overflow where the half is a number
Expr half_exponential(const Expr& size) {
  const auto [k, power] = exponential(held_within(size, 0.0f, 92.0f));
  return times_power(power, k - 1);
}
constexpr float kLn2 = 0.693147181f;
}  // namespace

// sinh x = x + x³ p(x²) up to 1, else h - 1/(4h) with h = e^x / 2
Value sinh(const Value& value) {
  const Expr x = detail::float_operand(value, "sinh").expr();
  if (x.type() != Halide::Float(32)) return Halide::sinh(x);
  constexpr float kSeries[] = {0.166666672f, 0.00833335053f, 0.000198360663f, 2.81743974e-06f};
  const Expr size = magnitude(x), square = size * size, h = half_exponential(size);
  const Expr near = add(size, size * square * polynomial(square, kSeries)), far = sub(h, div(0.25f, h));
  return nan_from(x, with_sign(Halide::select(at_most(size, 1.0f), near, far), x));
}

Value cosh(const Value& value) {
  const Expr x = detail::float_operand(value, "cosh").expr();
  if (x.type() != Halide::Float(32)) return Halide::cosh(x);
  const Expr h = half_exponential(magnitude(x));
  return nan_from(x, add(h, div(0.25f, h)));
}

// tanh(x) = sign(x) (1 - 2 / (e^2|x| + 1));  near 0, where that cancels, x + x³ p(x²)
Value tanh(const Value& operand) {
  const Value x = detail::float_operand(operand, "tanh");
  if (x.type() != Halide::Float(32)) {
    const Value magnitude = abs(x), e = exp(-2.0 * magnitude), far = (1.0 - e) / (1.0 + e), s = x * x;
    // Taylor, to 1e-17 of the result below 0.05
    const Value near =
        x + x * s * (-1.0 / 3 + s * (2.0 / 15 + s * (-17.0 / 315 + s * (62.0 / 2835 - s * (1382.0 / 155925)))));
    return select(magnitude < 0.05, near, select(x < 0, -far, far));
  }
  constexpr float kSeries[] = {-0.333332837f, 0.133314908f, -0.0537434965f, 0.0206505787f, -0.00571703399f};
  const Expr size = magnitude(x.expr()), square = size * size;
  const Expr near = size + size * square * polynomial(square, kSeries);
  const Expr e = exp(Value(-2.0f * size)).expr();
  const Expr far = (1.0f - e) * reciprocal(Value(1.0f + e)).expr();
  return nan_from(x.expr(), with_sign(Halide::select(less(size, 0.625f), near, far), x.expr()));
}

// arsinh x = ln(|x| + √(x² + 1)) = log1p(|x| + x² / (1 + √(x² + 1))); beyond 2^12 ln |x| + ln 2
Value asinh(const Value& value) {
  const Expr x = detail::float_operand(value, "asinh").expr();
  if (x.type() != Halide::Float(32)) return Halide::asinh(x);
  const Expr size = magnitude(x), held = held_within(size, 0.0f, 4096.0f), square = mul(held, held);
  const Expr near = log1p(Value(add(held, div(square, add(1.0f, Halide::sqrt(add(square, 1.0f))))))).expr();
  const Expr far = add(log(Value(size)).expr(), kLn2);
  return nan_from(x, with_sign(choose(at_most(size, 4096.0f), near, far), x));
}

// arcosh x = log1p(t + √(2t + t²)) with t = x - 1; beyond 2^12 ln x + ln 2
Value acosh(const Value& value) {
  const Expr x = detail::float_operand(value, "acosh").expr();
  if (x.type() != Halide::Float(32)) return Halide::acosh(x);
  const Expr t = sub(held_within(x, 1.0f, 4096.0f), 1.0f);
  const Expr near = log1p(Value(add(t, Halide::sqrt(mul(t, add(2.0f, t)))))).expr();
  const Expr far = add(log(Value(x)).expr(), kLn2);
  const Expr result = choose(at_most(x, 4096.0f), near, far);
  return choose_bits(!at_most(1.0f, x), kNan, result);
}

// artanh x = x + x³ p(x²) up to ½, else ½ log1p(2x / (1 - x))
Value atanh(const Value& value) {
  const Expr x = detail::float_operand(value, "atanh").expr();
  if (x.type() != Halide::Float(32)) return Halide::atanh(x);
  constexpr float kSeries[] = {0.333332986f, 0.200025871f, 0.142214879f, 0.118339583f, 0.0509855151f, 0.177196562f};
  const Expr size = magnitude(x), square = size * size, one = word(0x3f800000u);
  const Expr near = add(size, size * square * polynomial(square, kSeries));
  const Expr held = held_within(size, 0.0f, 0.99999994f);
  const Expr far = mul(0.5f, log1p(Value(div(mul(2.0f, held), sub(1.0f, held)))).expr());
  const Expr result = choose_bits(bits(size) == one, kInfinity, Halide::select(at_most(size, 0.5f), near, far));
  return choose_bits(bits(size) > one, kNan, with_sign(result, x));
}

}  // namespace ashlar::dsl

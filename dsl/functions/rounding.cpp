#include "dsl/functions/rounding.h"

#include "dsl/functions/parts.h"

namespace ashlar::dsl {

using namespace parts;

namespace {

// From 2^23 on all floats are whole numbers, and so are infinities; NaN isn't below.
Expr has_fraction(const Expr& x) { return less(magnitude(x), 8388608.0f); }

Expr truncated(const Expr& x) {
  const Expr held = Halide::select(has_fraction(x), x, 0.0f);
  return choose(has_fraction(x), with_sign(magnitude(Halide::cast<float>(Halide::cast<int32_t>(held))), x), x);
}

Expr operand(const Value& value, const char* function) { return detail::float_operand(value, function).expr(); }
bool is_f64(const Expr& x) { return x.type() == Halide::Float(64); }

/// |x| = whole · 2^(exponent - 150), exactly
struct Whole {
  Expr whole, exponent;
};
Whole whole_of(const Expr& x) {
  const Expr size = magnitude_bits(x), biased = size >> 23, fraction = size & word(0x7fffff);
  return {Halide::select(biased == word(0), fraction, fraction | word(0x800000)),
          Halide::cast<int32_t>(Halide::max(biased, word(1)))};
}

// whole_a 2^n modulo whole_b, 40 bits of the shift at a time, in integers: n is at most 253.
Expr fmod_of_sizes(const Expr& a, const Expr& b) {
  const Whole x = whole_of(a), y = whole_of(b);
  const auto wide = [](const Expr& e) { return Halide::cast<uint64_t>(e); };
  const Expr divisor = Halide::max(y.whole, word(1));
  Expr left = Halide::max(x.exponent - y.exponent, 0);
  Expr rest = x.whole % divisor;
  for (int turn = 0; turn < 7; turn++) {
    const Expr step = Halide::min(left, 40);
    rest = Halide::cast<uint32_t>((wide(rest) << wide(Halide::cast<uint32_t>(step))) % wide(divisor));
    left = left - step;
  }
  const Expr scale = y.exponent - 150, half = scale >> 1;
  return mul(mul(Halide::cast<float>(Halide::cast<int32_t>(rest)), power_of_two(half)), power_of_two(scale - half));
}

}  // namespace

Value trunc(const Value& value) {
  const Expr x = operand(value, "trunc");
  return is_f64(x) ? Halide::trunc(x) : truncated(x);
}
Value floor(const Value& value) {
  const Expr x = operand(value, "floor");
  if (is_f64(x)) return Halide::floor(x);
  const Expr whole = truncated(x);
  return choose(less(x, whole), sub(whole, 1.0f), whole);
}
Value ceil(const Value& value) {
  const Expr x = operand(value, "ceil");
  if (is_f64(x)) return Halide::ceil(x);
  const Expr whole = truncated(x);
  return choose(less(whole, x), with_sign(magnitude(add(whole, 1.0f)), x), whole);
}
// Adding 2^23 leaves no digits behind the point.
Value round(const Value& value) {
  const Expr x = operand(value, "round");
  if (is_f64(x)) {
    // Halide's is made of conversions to integers on CPUs without SSE 4.1, which lose NaN and infinities. In the same
    // way:
    const Expr sign_bit = Halide::Internal::make_const(Halide::UInt(64), uint64_t{1} << 63);
    const Expr bits = Halide::reinterpret<uint64_t>(x), sign = bits & sign_bit;
    const Expr size = Halide::reinterpret<double>(bits & ~sign_bit),
               shift = Halide::Internal::make_const(x.type(), 0x1p52);
    const Expr rounded = sub(add(size, shift), shift);
    return Halide::select(less(size, shift), Halide::reinterpret<double>(Halide::reinterpret<uint64_t>(rounded) | sign),
                          x);
  }
  const Expr whole = sub(add(magnitude(x), 8388608.0f), 8388608.0f);
  return choose(has_fraction(x), with_sign(whole, x), x);
}

Value round_away(const Value& value) {
  const Expr x = detail::f32_operand(value, "round_away").expr(), whole = truncated(x);
  return choose(less(magnitude(sub(x, whole)), 0.5f) || !has_fraction(x), whole,
                with_sign(add(magnitude(whole), 1.0f), x));
}
Value frac(const Value& value) {
  const Expr x = detail::f32_operand(value, "frac").expr();
  return choose_bits(is_infinite(x), kNan, sub(x, truncated(x)));
}

Value fmod(const Value& dividend, const Value& divisor) {
  auto [a_value, b_value] = detail::matched(dividend, divisor);
  const Expr a = detail::f32_operand(a_value, "fmod").expr(), b = detail::f32_operand(b_value, "fmod").expr();
  const Expr is_smaller = magnitude_bits(a) < magnitude_bits(b);
  const Expr result = choose(is_smaller, a, with_sign(fmod_of_sizes(a, b), a));
  const Expr has_none = is_nan_bits(a) || is_nan_bits(b) || is_zero(b) || is_infinite(a);
  return choose_bits(has_none, kNan, result);
}

// From the rest modulo 2|b|, whose quotient is even.
Value ieee_remainder(const Value& dividend, const Value& divisor) {
  auto [a_value, b_value] = detail::matched(dividend, divisor);
  const Expr a = detail::f32_operand(a_value, "ieee_remainder").expr();
  const Expr b = magnitude(detail::f32_operand(b_value, "ieee_remainder").expr());
  const Expr rest = fmod(Value(magnitude(a)), Value(mul(2.0f, b))).expr(), once = sub(rest, b);
  const Expr twice = Halide::select(less(add(once, once), b), once, sub(once, b));
  const Expr result = times_sign(choose(less(b, add(rest, rest)), twice, rest), a);
  return choose_bits(is_nan_bits(a) || is_nan_bits(b) || is_zero(b) || is_infinite(a), kNan, result);
}

namespace detail {
Value float_remainder(const Expr& a, const Expr& b) {
  const Expr rest = fmod(Value(a), Value(b)).expr();
  const Expr turns = !parts::is_zero(rest) && is_negative(rest) != is_negative(b);
  return choose(turns, parts::add(rest, f32_operand(b, "%").expr()), Value(rest));
}
}  // namespace detail

// (a - r) / b is a whole number, but for its rounding.
Value floor_div(const Value& a, const Value& b) {
  auto [x, y] = detail::comparable(a, b);
  if (!x.type().is_float()) return Value(x) / Value(y);
  const Expr quotient = div(sub(x, (Value(x) % Value(y)).expr()), y);
  return choose(is_zero(y), div(x, y), round(Value(quotient)).expr());
}

}  // namespace ashlar::dsl

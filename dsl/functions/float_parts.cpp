// By the bits of f32.
#include "dsl/functions/float_parts.h"

#include "dsl/functions/parts.h"
#include "dsl/functions/rounding.h"

namespace ashlar::dsl {

using namespace parts;

namespace {

constexpr uint32_t kLeastNormal = 0x00800000u;

/// Bits of a positive float that is normal, of `size` or, where that is subnormal, of `size` 2^24, and its exponent.
struct Normalized {
  Expr bits, exponent;  ///< |x| in [2^exponent, 2^(exponent + 1)), where x is finite and not 0
};
Normalized normalized(const Expr& x) {
  const Expr size = magnitude_bits(x), is_subnormal = size < word(kLeastNormal);
  const Expr normal = Halide::select(is_subnormal, bits(mul(magnitude(x), 16777216.0f)), size);
  const Expr exponent = Halide::cast<int32_t>(normal >> 23) - 127 - Halide::select(is_subnormal, 24, 0);
  return {normal, exponent};
}

}  // namespace

Value copysign(const Value& value, const Value& sign) {
  auto [x_value, sign_value] = detail::matched(value, sign);
  const Expr x = detail::f32_operand(x_value, "copysign").expr(),
             s = detail::f32_operand(sign_value, "copysign").expr();
  return with_sign(magnitude(x), s);
}

Value signbit(const Value& x) { return is_negative(detail::f32_operand(x, "signbit").expr()); }
Value is_finite(const Value& x) { return magnitude_bits(detail::f32_operand(x, "is_finite").expr()) < word(kInfinity); }
// LLVM takes floats for finite, and sees a test of one in a test of the bits for equality.
Value is_infinite(const Value& x) {
  const Expr size = magnitude_bits(detail::f32_operand(x, "is_infinite").expr());
  return size >= word(kInfinity) && size <= word(kInfinity);
}
Value is_normal(const Value& x) {
  const Expr size = magnitude_bits(detail::f32_operand(x, "is_normal").expr());
  return size >= word(kLeastNormal) && size < word(kInfinity);
}

FractionAndExponent frexp(const Value& value) {
  const Expr x = detail::f32_operand(value, "frexp").expr();
  const auto [normal, exponent] = normalized(x);
  const Expr has_none = is_zero(x) || magnitude_bits(x) >= word(kInfinity);
  const Expr fraction = with_sign(real((normal & word(0x7fffffu)) | word(0x3f000000u)), x);
  return {choose(has_none, x, fraction), Halide::select(has_none, 0, exponent + 1)};
}

// By powers of two that are exact, but for the last: a subnormal number appears in that alone.
Value ldexp(const Value& value, const Value& n) {
  const Expr x = detail::f32_operand(value, "ldexp").expr();
  if (!n.type().is_int_or_uint()) mistake("ldexp by a float, but the exponent is an integer: cast<i32>(n)");
  Expr left = Halide::clamp(Halide::cast<int32_t>(n.expr()), -400, 400), result = x;
  for (int turn = 0; turn < 2; turn++) {
    const Expr step = Halide::select(left < -126, -102, Halide::select(left > 127, 127, 0));
    result = mul(result, power_of_two(step));
    left = left - step;
  }
  result = mul(result, power_of_two(Halide::clamp(left, -126, 127)));
  return choose(is_zero(x) || magnitude_bits(x) >= word(kInfinity), x, result);
}

Value logb(const Value& value) {
  const Expr x = detail::f32_operand(value, "logb").expr();
  const Expr exponent = Halide::cast<float>(normalized(x).exponent);
  const Expr special = choose_bits(is_nan_bits(x), kNan, real(word(kInfinity)));
  return choose_bits(is_zero(x), kInfinity | kSign, choose(magnitude_bits(x) >= word(kInfinity), special, exponent));
}

Value ilogb(const Value& value) {
  const Expr x = detail::f32_operand(value, "ilogb").expr();
  // As words: Halide's differences of int32 may not overflow, also where it only thinks of them.
  const Expr exponent = Halide::reinterpret<uint32_t>(normalized(x).exponent);
  return Halide::reinterpret<int32_t>(
      Halide::select(is_zero(x) || is_nan_bits(x), word(0x80000000u), is_infinite(x), word(0x7fffffffu), exponent));
}

// Floats of one sign are ordered as their bits are.
Value nextafter(const Value& from, const Value& towards) {
  auto [x_value, y_value] = detail::matched(from, towards);
  const Expr x = detail::f32_operand(x_value, "nextafter").expr();
  const Expr y = detail::f32_operand(y_value, "nextafter").expr();
  const Expr x_size = magnitude_bits(x), y_size = magnitude_bits(y), same_sign = is_negative(x) == is_negative(y);
  const Expr grows = same_sign && x_size < y_size;
  const Expr moved = bits(x) + Halide::select(grows, word(1), word(0xffffffffu));
  const Expr from_zero = (bits(y) & word(kSign)) | word(1);
  const Expr is_equal = (x_size == y_size && same_sign) || (is_zero(x) && is_zero(y));
  const Expr result = Halide::select(is_equal, bits(y), is_zero(x), from_zero, moved);
  return choose_bits(is_nan_bits(x) || is_nan_bits(y), kNan, real(result));
}

FractionAndWhole modf(const Value& value) {
  const Expr x = detail::f32_operand(value, "modf").expr(), whole = trunc(Value(x)).expr();
  const Expr fraction = with_sign(magnitude(sub(x, whole)), x);
  return {choose(magnitude_bits(x) >= word(kInfinity), nan_from(x, with_sign(0.0f, x)), fraction), whole};
}

}  // namespace ashlar::dsl

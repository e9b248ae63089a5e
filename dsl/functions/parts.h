// What device functions are made of: operations that are carried out as written, bits of floats, polynomials. For the
// functions' own sources; a kernel's author needs none of it.
#pragma once

#include "dsl/functions/native.h"
#include "dsl/value.h"

namespace ashlar::dsl::parts {

using Halide::Internal::Call;

// Operations that aren't reordered or fused with what stands around them, and comparisons that NaN makes false. All
// others may be: Halide compiles them as if reals had no rounding.
inline Expr add(const Expr& a, const Expr& b) { return detail::strictly(Call::strict_add, a, b); }
inline Expr sub(const Expr& a, const Expr& b) { return detail::strictly(Call::strict_sub, a, b); }
inline Expr mul(const Expr& a, const Expr& b) { return detail::strictly(Call::strict_mul, a, b); }
inline Expr div(const Expr& a, const Expr& b) { return detail::strictly(Call::strict_div, a, b); }
inline Expr less(const Expr& a, const Expr& b) { return detail::strictly_compared(Call::strict_lt, a, b); }
using detail::at_most;

// Bits of an f32.
inline constexpr uint32_t kSign = 0x80000000u, kMagnitude = 0x7fffffffu, kInfinity = 0x7f800000u, kNan = 0x7fc00000u;
inline Expr word(uint32_t value) { return Halide::Internal::make_const(Halide::UInt(32), value); }
inline Expr bits(const Expr& x) { return Halide::reinterpret<uint32_t>(x); }
inline Expr real(const Expr& bits) { return Halide::reinterpret<float>(bits); }
inline Expr magnitude_bits(const Expr& x) { return bits(x) & word(kMagnitude); }
inline Expr magnitude(const Expr& x) { return real(magnitude_bits(x)); }
using detail::is_nan_bits;
inline Expr is_infinite(const Expr& x) { return magnitude_bits(x) == word(kInfinity); }
/// Also for subnormal numbers where the target takes them for 0.
inline Expr is_zero(const Expr& x) { return magnitude_bits(x) == word(0); }
inline Expr is_negative(const Expr& x) { return (bits(x) & word(kSign)) != word(0); }
/// `size`, which isn't negative, with the sign of `x`: 0 too.
inline Expr with_sign(const Expr& size, const Expr& x) { return real(bits(size) | (bits(x) & word(kSign))); }
/// `x`, negated where `x` or `other` is negative, but not both.
inline Expr times_sign(const Expr& x, const Expr& other) { return real(bits(x) ^ (bits(other) & word(kSign))); }
/// 2^n for n in [-126, 127]
inline Expr power_of_two(const Expr& n) { return Halide::reinterpret<float>((n + 127) << 23); }

/// The bits of one of two values: what the other one is made of may take NaN or infinities for impossible.
inline Expr choose(const Expr& condition, const Expr& yes, const Expr& no) {
  return real(Halide::select(condition, bits(yes), bits(no)));
}
inline Expr choose_bits(const Expr& condition, uint32_t yes, const Expr& no) {
  return real(Halide::select(condition, word(yes), bits(no)));
}
/// NaN where x is, else `value`
inline Expr nan_from(const Expr& x, const Expr& value) { return choose(is_nan_bits(x), x, value); }
/// `x` within [low, high]; NaN stays NaN
inline Expr held_within(const Expr& x, float low, float high) {
  return Halide::select(less(Expr(high), x), high, Halide::select(less(x, Expr(low)), low, x));
}

/// c₀ + x (c₁ + x (c₂ + …)), fused where the target can
template <size_t N>
Expr polynomial(const Expr& x, const float (&coefficients)[N]) {
  Expr sum = coefficients[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = coefficients[i] + x * sum;
  return sum;
}

/// A number as the sum of a float and what that one leaves.
struct Pair {
  Expr high, low;
};
/// a + b exactly (Knuth)
inline Pair two_sum(const Expr& a, const Expr& b) {
  const Expr sum = add(a, b), of_b = sub(sum, a), of_a = sub(sum, of_b);
  return {sum, add(sub(a, of_a), sub(b, of_b))};
}
/// a + b exactly where |a| >= |b| (Dekker 1971)
inline Pair fast_two_sum(const Expr& a, const Expr& b) {
  const Expr sum = add(a, b);
  return {sum, sub(b, sub(sum, a))};
}
/// Twelve digits of `x`, and the others.
inline Pair halves(const Expr& x) {
  const Expr high = real(bits(x) & word(0xfffff000u));
  return {high, sub(x, high)};
}
/// a b exactly: from products of halves (Dekker 1971), or by a fused multiply-add, which GPUs would make of some of
/// those products by themselves.
inline Pair two_product(const Expr& a, const Expr& b) {
  if (is_gpu_f32(a)) {
    const Expr product = product_on_gpu(a, b);
    return {product, fused_on_gpu(a, b, -product)};
  }
  const Expr product = mul(a, b);
  const Pair x = halves(a), y = halves(b);
  const Expr crossed = add(add(sub(mul(x.high, y.high), product), mul(x.high, y.low)), mul(x.low, y.high));
  return {product, add(crossed, mul(x.low, y.low))};
}

/// x = m 2^e with m in [√½, √2), for x > 0 that is normal, or subnormal where the target has them.
struct Scaled {
  Expr m, e;  ///< e as an integer
};
Scaled scaled(const Expr& x);

/// e^x = power · 2^k for x in [-110, 110]
struct Exponential {
  Expr k;  ///< as an integer
  Expr power;
};
Exponential exponential(const Expr& x);
/// value · 2^n for n in [-252, 252], in two factors: subnormal results and overflow to infinity come by themselves.
Expr times_power(const Expr& value, const Expr& n);

/// 2^(t + rest) = power · 2^k for t in [-200, 200] and |rest| below ½
Exponential exp2_of(const Expr& t, const Expr& rest);
/// log2(x) for x > 0 to 2^-34 of itself
Pair log2_in_two(const Expr& x);

/// ln(1 + f) - f for f in [√½ - 1, √2 - 1]
Expr log1p_rest(const Expr& f);
/// The logarithm of `x` where it is positive and finite is `value`; -Inf of 0, NaN below, +Inf and NaN as they are.
Expr logarithm_or_special(const Expr& x, const Expr& value);

}  // namespace ashlar::dsl::parts

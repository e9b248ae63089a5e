// Arithmetic and comparisons of tensors with each other and with numbers, by name and by operator.
//
// Operands broadcast (NumPy's rule) and meet in a common dtype (runtime/tensor/promotion.h); `/` of integers is a true
// division and gives f32. Comparisons give bool. All are element-wise, so `a == b` is a tensor, not a bool.
#pragma once

#include <concepts>

#include "runtime/tensor/number.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

// ---- by name: the two-tensor functions are kernels (ashlar/ops.h) -------------------------------------------------

/// a + b. f16 and bf16 meet a number in f32, and are rounded once.
Tensor add(const Tensor& a, Number b);
Tensor add(Number a, const Tensor& b);
/// a - b
Tensor sub(const Tensor& a, Number b);
Tensor sub(Number a, const Tensor& b);
/// a b
Tensor mul(const Tensor& a, Number b);
Tensor mul(Number a, const Tensor& b);
/// a / b
Tensor div(const Tensor& a, Number b);
Tensor div(Number a, const Tensor& b);
/// a^b. Of integers modulo 2^bits, and a b of 64 or more counts as b mod 64, but for an a of 1, 0 or -1; where b is
/// negative the whole part, and an error where it is a number.
Tensor pow(const Tensor& a, Number b);
Tensor pow(Number a, const Tensor& b);
/// a - trunc(a / b) b, with the sign of a
Tensor fmod(const Tensor& a, Number b);
/// a - floor(a / b) b, with the sign of b
Tensor remainder(const Tensor& a, Number b);
/// a where the condition holds, else b
Tensor where(const Tensor& condition, const Tensor& a, Number b);
Tensor where(const Tensor& condition, Number a, const Tensor& b);
/// the larger of a and b; NaN where one is
Tensor maximum(const Tensor& a, Number b);
Tensor maximum(Number a, const Tensor& b);
/// the smaller of a and b; NaN where one is
Tensor minimum(const Tensor& a, Number b);
Tensor minimum(Number a, const Tensor& b);
/// min(max(x, min), max) with bounds that broadcast and meet x in a dtype; one of them may be undefined: no bound. NaN
/// where x or a bound is; max where min is larger. Throws ValueError where both are undefined.
Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max);
/// The same with numbers, exact for integers of x's dtype: Number(0.5) keeps f64, which two doubles don't.
Tensor clamp(const Tensor& x, Number min, Number max);
template <std::integral A, std::integral B>
Tensor clamp(const Tensor& x, A min, B max) {
  return clamp(x, Number(min), Number(max));
}
/// max(x, min)
Tensor clamp_min(const Tensor& x, const Tensor& min);
Tensor clamp_min(const Tensor& x, Number min);
/// min(x, max)
Tensor clamp_max(const Tensor& x, const Tensor& max);
Tensor clamp_max(const Tensor& x, Number max);
/// a = b
Tensor eq(const Tensor& a, Number b);
/// a ≠ b
Tensor ne(const Tensor& a, Number b);
/// a < b
Tensor lt(const Tensor& a, Number b);
/// a ≤ b
Tensor le(const Tensor& a, Number b);
/// a > b
Tensor gt(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, Number b);
/// a ≥ b
Tensor ge(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, Number b);

// ---- by operator ---------------------------------------------------------------------------------------------------

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);

inline Tensor operator+(const Tensor& a, Number b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, Number b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, Number b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, Number b) { return div(a, b); }
inline Tensor operator==(const Tensor& a, Number b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, Number b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, Number b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, Number b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, Number b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, Number b) { return ge(a, b); }

inline Tensor operator+(Number a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(Number a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(Number a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(Number a, const Tensor& b) { return div(a, b); }
inline Tensor operator==(Number a, const Tensor& b) { return eq(b, a); }
inline Tensor operator!=(Number a, const Tensor& b) { return ne(b, a); }
inline Tensor operator<(Number a, const Tensor& b) { return gt(b, a); }
inline Tensor operator<=(Number a, const Tensor& b) { return ge(b, a); }
inline Tensor operator>(Number a, const Tensor& b) { return lt(b, a); }
inline Tensor operator>=(Number a, const Tensor& b) { return le(b, a); }

/// Throws DTypeError for bool.
Tensor operator-(const Tensor& x);

}  // namespace ashlar

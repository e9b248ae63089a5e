// The same arithmetic on Vars, recorded on the tape. A Tensor beside a Var counts as a constant.
#pragma once

#include <iosfwd>

#include "ashlar/arithmetic.h"
#include "autograd/var.h"
#include "runtime/tensor/number.h"

namespace ashlar {

namespace ad {

/// a + b
Var add(const Var& a, Number b);
Var add(Number a, const Var& b);
/// a - b
Var sub(const Var& a, Number b);
Var sub(Number a, const Var& b);
/// a b
Var mul(const Var& a, Number b);
Var mul(Number a, const Var& b);
/// a / b
Var div(const Var& a, Number b);
Var div(Number a, const Var& b);
/// a^b
Var pow(const Var& a, Number b);
Var pow(Number a, const Var& b);
/// a - trunc(a / b) b, with the sign of a
Var fmod(const Var& a, Number b);
/// a - floor(a / b) b, with the sign of b
Var remainder(const Var& a, Number b);
/// the larger of a and b; NaN where one is
Var maximum(const Var& a, Number b);
Var maximum(Number a, const Var& b);
/// the smaller of a and b; NaN where one is
Var minimum(const Var& a, Number b);
Var minimum(Number a, const Var& b);
/// min(max(x, min), max) with bounds that broadcast; one of them may be undefined: no bound. x has the gradient where
/// it is within them, on them too; elsewhere the bound that it met. Throws ValueError where both are undefined.
Var clamp(const Var& x, const Var& min, const Var& max);
/// The same with numbers.
Var clamp(const Var& x, Number min, Number max);
template <std::integral A, std::integral B>
Var clamp(const Var& x, A min, B max) {
  return clamp(x, Number(min), Number(max));
}
/// max(x, min)
Var clamp_min(const Var& x, const Var& min);
Var clamp_min(const Var& x, Number min);
/// min(x, max)
Var clamp_max(const Var& x, const Var& max);
Var clamp_max(const Var& x, Number max);
/// a where the condition holds, else b
Var where(const Tensor& condition, const Var& a, Number b);
Var where(const Tensor& condition, Number a, const Var& b);
/// the tensors one after the other along `axis`. dx = x's part of dy. At most 64.
Var cat(std::span<const Var> vars, int64_t axis = 0);
Var cat(std::initializer_list<Var> vars, int64_t axis = 0);
/// the same along a new axis, for Vars of one shape
Var stack(std::span<const Var> vars, int64_t axis = 0);
Var stack(std::initializer_list<Var> vars, int64_t axis = 0);

}  // namespace ad

/// Operands of two dtypes are converted, which is recorded: each gets a gradient of its own dtype.
Var operator+(const Var& a, const Var& b);
Var operator-(const Var& a, const Var& b);
Var operator*(const Var& a, const Var& b);
Var operator/(const Var& a, const Var& b);
Var operator-(const Var& x);

inline Var operator+(const Var& a, Number b) { return ad::add(a, b); }
inline Var operator-(const Var& a, Number b) { return ad::sub(a, b); }
inline Var operator*(const Var& a, Number b) { return ad::mul(a, b); }
inline Var operator/(const Var& a, Number b) { return ad::div(a, b); }
inline Var operator+(Number a, const Var& b) { return ad::add(a, b); }
inline Var operator-(Number a, const Var& b) { return ad::sub(a, b); }
inline Var operator*(Number a, const Var& b) { return ad::mul(a, b); }
inline Var operator/(Number a, const Var& b) { return ad::div(a, b); }

/// Comparisons of the values: bool, which has no gradient.
inline Tensor operator==(const Var& a, const Var& b) { return a.value() == b.value(); }
inline Tensor operator!=(const Var& a, const Var& b) { return a.value() != b.value(); }
inline Tensor operator<(const Var& a, const Var& b) { return a.value() < b.value(); }
inline Tensor operator<=(const Var& a, const Var& b) { return a.value() <= b.value(); }
inline Tensor operator>(const Var& a, const Var& b) { return a.value() > b.value(); }
inline Tensor operator>=(const Var& a, const Var& b) { return a.value() >= b.value(); }
inline Tensor operator==(const Var& a, Number b) { return a.value() == b; }
inline Tensor operator!=(const Var& a, Number b) { return a.value() != b; }
inline Tensor operator<(const Var& a, Number b) { return a.value() < b; }
inline Tensor operator<=(const Var& a, Number b) { return a.value() <= b; }
inline Tensor operator>(const Var& a, Number b) { return a.value() > b; }
inline Tensor operator>=(const Var& a, Number b) { return a.value() >= b; }
inline Tensor operator==(Number a, const Var& b) { return a == b.value(); }
inline Tensor operator!=(Number a, const Var& b) { return a != b.value(); }
inline Tensor operator<(Number a, const Var& b) { return a < b.value(); }
inline Tensor operator<=(Number a, const Var& b) { return a <= b.value(); }
inline Tensor operator>(Number a, const Var& b) { return a > b.value(); }
inline Tensor operator>=(Number a, const Var& b) { return a >= b.value(); }

/// The value as a Tensor is printed, and whether it requires a gradient.
std::ostream& operator<<(std::ostream& out, const Var& x);

}  // namespace ashlar

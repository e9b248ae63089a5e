// Arithmetic of C's math.h beyond operators, and what PyTorch makes of a few of them.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

/// a b + c, rounded once.
Value fma(const Value& a, const Value& b, const Value& c);
/// The larger and the smaller number, where one is NaN the other; +0 counts as larger than -0.
Value fmax(const Value& a, const Value& b);
Value fmin(const Value& a, const Value& b);
/// a - b where a is larger, else +0
Value fdim(const Value& a, const Value& b);
/// a + weight (b - a), from the nearer end (PyTorch's lerp).
Value lerp(const Value& a, const Value& b, const Value& weight);
/// 0 below 0, `at_zero` there, 1 above; 0 for NaN, as PyTorch's.
inline Value heaviside(const Value& x, const Value& at_zero) {
  return select(x == 0, at_zero, Value(Halide::cast(x.type(), (x > 0).expr())));
}
/// Degrees as radians, and back.
inline Value deg2rad(const Value& x) { return detail::float_operand(x, "deg2rad") * 0.017453292519943295; }
inline Value rad2deg(const Value& x) { return detail::float_operand(x, "rad2deg") * 57.29577951308232; }

}  // namespace ashlar::dsl

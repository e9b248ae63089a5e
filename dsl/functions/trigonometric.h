// Sines and their inverses, in radians. How far each may be off: docs/device-functions.md. Arguments of any size are
// reduced exactly; NaN of infinities.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

Value sin(const Value& x);
Value cos(const Value& x);
Value tan(const Value& x);
/// sin(πx), cos(πx) and sin(πx) / (πx), which is 1 at 0: exact where the sine or cosine is 0 or ±1.
Value sinpi(const Value& x);
Value cospi(const Value& x);
Value sinc(const Value& x);
/// NaN beyond ±1
Value asin(const Value& x);
Value acos(const Value& x);
Value atan(const Value& x);
/// The angle of the point (x, y), in [-π, π], with C's signs of zero.
Value atan2(const Value& y, const Value& x);

}  // namespace ashlar::dsl

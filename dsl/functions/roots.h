// Roots. How far each may be off: docs/device-functions.md.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

Value cbrt(const Value& x);
/// √(a² + b²), where the squares overflow or underflow too; +Inf of an infinity, also beside NaN.
Value hypot(const Value& a, const Value& b);

}  // namespace ashlar::dsl

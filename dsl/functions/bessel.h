// Modified Bessel functions of the first kind. How far each may be off: docs/device-functions.md.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

Value i0(const Value& x);
/// e^-|x| i0(x)
Value i0e(const Value& x);
Value i1(const Value& x);
/// e^-|x| i1(x)
Value i1e(const Value& x);

}  // namespace ashlar::dsl

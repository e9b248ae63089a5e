// Hyperbolic functions and their inverses. How far each may be off: docs/device-functions.md.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

Value sinh(const Value& x);
Value cosh(const Value& x);
Value tanh(const Value& x);
Value asinh(const Value& x);
/// NaN below 1
Value acosh(const Value& x);
/// NaN beyond ±1
Value atanh(const Value& x);

}  // namespace ashlar::dsl

// Logarithms: -Inf of 0, NaN of negative numbers. How far each may be off: docs/device-functions.md.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

Value log(const Value& x);
Value log2(const Value& x);
Value log10(const Value& x);
/// ln(1 + x), without the loss near 0
Value log1p(const Value& x);
/// The same for x in [0, 1], in a quarter of the instructions.
Value log1p_to_one(const Value& x);

}  // namespace ashlar::dsl

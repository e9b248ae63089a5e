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

/// ln(e^a + e^b) and log2(2^a + 2^b)
Value logaddexp(const Value& a, const Value& b);
Value logaddexp2(const Value& a, const Value& b);
/// x ln y and x ln(1 + y); 0 where x is, unless y is NaN.
Value xlogy(const Value& x, const Value& y);
Value xlog1py(const Value& x, const Value& y);
/// -x ln x; 0 of 0, -Inf below.
Value entr(const Value& x);

}  // namespace ashlar::dsl

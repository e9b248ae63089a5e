// The error function, its complement and the normal distribution. How far each may be off: docs/device-functions.md.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

Value erf(const Value& x);
/// 1 - erf(x), without the loss where erf is near 1
Value erfc(const Value& x);
/// The x with erf(x) = y; ±Inf at ±1, NaN beyond.
Value erfinv(const Value& y);
/// Φ(x) = (1 + erf(x/√2)) / 2, to 2e-7
Value normal_cdf(const Value& x);
/// 1/x to 1 ULP where x and 1/x are normal numbers: one instruction on CUDA.
Value reciprocal(const Value& x);

}  // namespace ashlar::dsl

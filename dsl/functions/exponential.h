// Exponentials and powers. How far each may be off: docs/device-functions.md.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

Value exp(const Value& x);
/// e^x for x <= 0 with an ULP less to lose than exp(x) has on CUDA: for what follows to stay below its own limit.
Value exp_to_one(const Value& x);
/// e^x for x <= 0 to 6e-6 of itself: two instructions on a GPU. For sums of exponentials below their maximum.
Value exp_below_zero(const Value& x);
/// 2^x
Value exp2(const Value& x);
/// 10^x
Value exp10(const Value& x);
/// e^x - 1, without the loss near 0
Value expm1(const Value& x);
/// x^y; of a negative x where y is an integer, else NaN. x^0 and 1^y are 1, also for NaN. Of integers modulo 2^bits,
/// and a y of 64 or more counts as y mod 64 where x is neither 1, 0 nor -1; of a negative y the whole part, which is 0
/// but for x of 1 and -1.
Value pow(const Value& x, const Value& y);

}  // namespace ashlar::dsl

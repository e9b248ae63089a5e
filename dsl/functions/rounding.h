// To whole numbers, and remainders: exact. NaN, infinities and the sign of 0 come through.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

Value floor(const Value& x);
Value ceil(const Value& x);
/// To the nearest, ties to even, as PyTorch's.
Value round(const Value& x);
inline Value rint(const Value& x) { return round(x); }
inline Value nearbyint(const Value& x) { return round(x); }
/// To the nearest, ties away from 0, as C's round.
Value round_away(const Value& x);
/// Towards 0
Value trunc(const Value& x);
/// x - trunc(x)
Value frac(const Value& x);
/// a - trunc(a / b) b, with the sign of a. NaN where b is 0 or a infinite; a where b is.
Value fmod(const Value& a, const Value& b);
/// a % b: with the sign of b, as PyTorch's remainder.
inline Value remainder(const Value& a, const Value& b) { return a % b; }
/// a - n b with n the nearest whole number to a / b, ties to even, as C's remainder.
Value ieee_remainder(const Value& a, const Value& b);
/// floor(a / b), also where a / b as a float would be rounded to the next number. Of integers, a / b.
Value floor_div(const Value& a, const Value& b);

}  // namespace ashlar::dsl

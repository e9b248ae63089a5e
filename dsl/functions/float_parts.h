// A float's sign, exponent and fraction, neighbours and kinds: exact.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

/// |x| with the sign of `sign`, a NaN's or zero's, too.
Value copysign(const Value& x, const Value& sign);
/// Whether x's sign bit is set: true for -0.
Value signbit(const Value& x);
Value is_finite(const Value& x);
Value is_infinite(const Value& x);
/// Neither 0, subnormal, infinite nor NaN.
Value is_normal(const Value& x);

/// x = fraction 2^exponent with |fraction| in [½, 1); 0, infinities and NaN as they are with exponent 0.
struct FractionAndExponent {
  Value fraction, exponent;  ///< the exponent as i32
};
FractionAndExponent frexp(const Value& x);
/// x 2^n for an integer n, rounded once.
Value ldexp(const Value& x, const Value& n);
/// floor(log2 |x|) as a float: -Inf of 0, +Inf of infinities.
Value logb(const Value& x);
/// The same as i32: the least one of 0 and NaN, the greatest of infinities.
Value ilogb(const Value& x);
/// The next float from x towards y; y where they are equal.
Value nextafter(const Value& x, const Value& y);

/// Whole and fractional part, both with the sign of x; the fraction of an infinity is 0.
struct FractionAndWhole {
  Value fraction, whole;
};
FractionAndWhole modf(const Value& x);

}  // namespace ashlar::dsl

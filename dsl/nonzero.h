// Whether numbers are 0, on every target alike.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

/// x ≠ 0. NaN isn't 0; neither are subnormal numbers, on no target, since their bits are looked at.
inline Value is_nonzero(const Value& x) {
  if (!x.type().is_float()) return x != Value(Halide::Internal::make_zero(x.type()));
  return Expr(Halide::reinterpret(Halide::UInt(x.type().bits()), x.expr()) << 1 != 0);
}

}  // namespace ashlar::dsl

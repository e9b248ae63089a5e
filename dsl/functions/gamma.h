// The gamma function, its logarithm and the derivatives of that. How far each may be off: docs/device-functions.md.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

/// Γ(x); ±Inf at ±0, NaN at -1, -2, …
Value tgamma(const Value& x);
/// ln |Γ(x)|; +Inf at 0, -1, -2, …
Value lgamma(const Value& x);
/// ψ(x) = (ln Γ)'(x); NaN at -1, -2, …, ∓Inf at ±0
Value digamma(const Value& x);
/// ψ'(x); +Inf at 0, -1, -2, …
Value trigamma(const Value& x);

}  // namespace ashlar::dsl

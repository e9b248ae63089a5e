// Comparisons by those the other way round, and what follows from one.
#pragma once

#include "ashlar/ops/compare.h"
#include "ashlar/ops/ternary.h"
#include "operators/composed/values.h"

namespace ashlar::composed {

template <class T>
T gt(const T& a, const T& b) {
  return lt(b, a);
}

template <class T>
T ge(const T& a, const T& b) {
  return le(b, a);
}

template <class T>
T threshold(const T& x, double threshold, double value) {
  return where(value_of(x) <= threshold, value, x);
}

}  // namespace ashlar::composed

// Classes of rows by their labels, as losses read them.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

inline Value is_label(const Value& label, const Expr& classes) {
  return label >= 0 && label < Value(Halide::cast<int64_t>(classes));
}
/// A label outside [0, classes) reads a valid element, and its loss is turned into NaN: no call reads out of bounds.
inline Value safe_index(const Value& label, const Expr& classes) {
  return Halide::cast<int32_t>(
      Halide::clamp(label.expr(), Halide::cast<int64_t>(0), Halide::cast<int64_t>(classes - 1)));
}

}  // namespace ashlar::dsl

// Whether a tensor can be read in aligned quads: known to a product's form and to what chooses beside its plans.
#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace ashlar::detail {

inline constexpr int64_t kQuad = 4;  // elements of the widest access

/// Along this axis, whose elements are neighbours.
inline bool is_in_quads(const Tensor& x, int along) {
  const Shape& strides = x.strides();
  if (strides[along] != 1 || x.offset() % kQuad != 0 || x.shape()[along] % kQuad != 0) return false;
  for (int i = 0; i < x.rank(); i++) {
    if (i != along && x.shape()[i] > 1 && strides[i] % kQuad != 0) return false;
  }
  return true;
}

}  // namespace ashlar::detail

// Tensors one after the other, as many as a description names.
#pragma once

#include <span>
#include <vector>

#include "operators/composed/values.h"

namespace ashlar::composed {

template <class T>
T concat(const T& x0, const T& x1, const T& x2, const T& x3, const T& x4, const T& x5, const T& x6, const T& x7,
         int64_t axis) {
  std::vector<T> given;
  for (const T& x : {x0, x1, x2, x3, x4, x5, x6, x7}) {
    if (x.defined()) given.push_back(x);
  }
  return cat(std::span<const T>(given), axis);
}

}  // namespace ashlar::composed

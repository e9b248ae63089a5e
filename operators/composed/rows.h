// Rows, and the channels of images, in another order or of the other sign.
#pragma once

#include "ashlar/ops/softmax.h"
#include "ashlar/ops/unary.h"
#include "operators/composed/values.h"

namespace ashlar::composed {

template <class T>
T softmin(const T& x, int64_t axis) {
  return softmax(T(neg(x)), axis);
}

template <class T>
T channel_shuffle(const T& x, int64_t groups) {
  if (x.shape().rank() < 3 || groups <= 0 || x.size(1) % groups != 0) {
    throw ShapeError("channel_shuffle", shown(x),
                     "[n, channels, sizes…], channels a multiple of " + std::to_string(groups) + " groups",
                     "Choose groups that divide the channels");
  }
  Shape parts = x.shape();
  parts[1] = x.size(1) / groups;
  parts.insert(1, groups);
  return x.reshape(parts).transpose(1, 2).reshape(x.shape());
}

}  // namespace ashlar::composed

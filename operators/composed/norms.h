// What is divided by a norm, or is one.
#pragma once

#include "ashlar/ops/binary.h"
#include "ashlar/ops/binary_maths.h"
#include "ashlar/ops/images.h"
#include "ashlar/ops/maths.h"
#include "ashlar/ops/pooling.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/unary.h"
#include "operators/composed/values.h"

namespace ashlar::composed {

template <class T>
T normalize(const T& x, int64_t axis, double p, double eps) {
  return div(x, T(maximum(T(norm(x, p, {axis}, true)), eps)));
}

template <class T>
T pairwise_distance(const T& x1, const T& x2, double p, double eps, bool keepdim) {
  return norm(T(add(T(x1 - x2), eps)), p, {-1}, keepdim);
}

template <class T>
T local_response_norm(const T& x, int64_t size, double alpha, double beta, double k) {
  constexpr const char* kName = "local_response_norm";
  if (size <= 0) throw ValueError(kName, "size = " + std::to_string(size), "1 or more", "Try 5");
  if (x.shape().rank() < 3) throw ShapeError(kName, shown(x), "[n, channels, sizes…]", "Reshape it");
  if (x.numel() == 0) return x;
  const int64_t n = x.size(0), channels = x.size(1), places = x.numel() / n / channels;
  const T squares = T(square(x)).reshape({n, 1, channels, places});
  const T padded = pad(squares, Shape{0, 0, size / 2, (size - 1) / 2});
  const T means = T(avg_pool2d(padded, Shape{size, 1}, Shape{1, 1}, Shape{0, 0})).reshape(x.shape());
  return div(x, T(pow(T(affine(means, alpha, k)), beta)));
}

}  // namespace ashlar::composed

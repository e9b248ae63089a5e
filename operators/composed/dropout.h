// Dropouts by the numbers that come next in a stream, which goes on.
#pragma once

#include <cmath>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/compare.h"
#include "ashlar/ops/random.h"
#include "ashlar/ops/ternary.h"
#include "ashlar/ops/unary.h"
#include "operators/composed/values.h"
#include "runtime/random/philox.h"

namespace ashlar::composed {

template <class T>
T dropout(const T& x, const Tensor& state, double p) {
  check_philox_state("dropout", state);
  const Tensor begin = state.clone();  // gradients begin there once more
  philox_advance(state, (x.numel() + 3) / 4);
  return dropout_at(x, begin, p);
}

/// The same for ones: of each element of x, or of each of its channels.
template <class T>
Tensor dropped(const char* operation, const T& x, const Tensor& state, double p, bool is_of_channels) {
  Shape shape = x.shape();
  if (is_of_channels && shape.rank() < 2) {
    throw ShapeError(operation, shown(x), "[batch, channels, sizes…]", "Put a batch of one in front by unsqueeze(0)");
  }
  for (int axis = 2; is_of_channels && axis < shape.rank(); axis++) shape[axis] = 1;
  return dropout(Tensor::ones(shape, x.dtype(), x.device()), state, p);
}

/// SELU's least value in place of 0, then scaled and shifted to mean 0 and variance 1 (Klambauer et al. 2017).
template <class T>
T alpha_dropped(const T& x, const Tensor& factor, double p) {
  if (p == 1) return mul(x, 0);
  constexpr double kLeast = -1.7580993408473766;  // of SELU: -scale · alpha
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * kLeast * kLeast)), shift = -scale * kLeast * p;
  return where(factor > 0, T(affine(x, scale, shift)), scale * kLeast + shift);
}

template <class T>
T feature_dropout(const T& x, const Tensor& state, double p) {
  return mul(x, T(dropped("feature_dropout", x, state, p, true)));
}

template <class T>
T alpha_dropout(const T& x, const Tensor& state, double p) {
  return alpha_dropped(x, dropped("alpha_dropout", x, state, p, false), p);
}

template <class T>
T feature_alpha_dropout(const T& x, const Tensor& state, double p) {
  return alpha_dropped(x, dropped("feature_alpha_dropout", x, state, p, true), p);
}

template <class T>
T rrelu(const T& x, const Tensor& state, double lower, double upper) {
  if (!(lower <= upper)) {
    throw ValueError("rrelu", "lower = " + std::to_string(lower) + ", upper = " + std::to_string(upper),
                     "lower of upper at most", "The defaults are 1/8 and 1/3");
  }
  const Tensor slopes = uniform(state, lower, upper, x.shape());
  return where(value_of(x) <= 0, T(mul(x, T(slopes.to(x.dtype())))), x);
}

}  // namespace ashlar::composed

// What tests of optimisers share: gradients by formula.
#pragma once

#include <cmath>
#include <vector>

namespace ashlar::nn {

/// The i-th gradient element in step t: some fixed numbers of various sizes.
inline double gradient_at(size_t i, int t) {
  return std::sin(1.0 + 3.0 * static_cast<double>(i) + t) * (i % 3 == 0 ? 10 : 0.1);
}

inline std::vector<float> gradients(size_t count, size_t first, int t) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; i++) values[i] = static_cast<float>(gradient_at(first + i, t));
  return values;
}

}  // namespace ashlar::nn

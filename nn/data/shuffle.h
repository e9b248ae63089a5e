// Orders by chance.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/tensor/random.h"

namespace ashlar::nn {

/// 0 to count - 1, every order as likely (Fisher and Yates).
inline std::vector<int64_t> shuffled(int64_t count, Random random) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace ashlar::nn

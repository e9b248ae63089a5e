// Random choices that follow from a seed alone: what the random property test draws with.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "runtime/tensor/shape.h"
#include "tests/conformance/values.h"

namespace ashlar::conformance {

/// The same seed gives the same choices everywhere; neighbouring seeds have nothing in common.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed)) {}

  /// Another source, that goes its own way.
  Random fork() { return Random(bits()); }

  uint64_t bits() { return mix(state_++); }
  /// Uniform over 0 … count − 1; count ≥ 1.
  int64_t below(int64_t count) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(count)); }
  /// Uniform over low … high, both included.
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  /// Uniform in [0, 1).
  double fraction() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double probability) { return fraction() < probability; }

  template <class Items>
  auto& pick(Items& items) {
    return *std::next(std::begin(items), below(static_cast<int64_t>(std::size(items))));
  }
  template <class T>
  T pick(std::initializer_list<T> items) {
    return *(items.begin() + below(static_cast<int64_t>(items.size())));
  }

  /// 0 … rank − 1 in any order.
  Shape permutation(int rank) {
    Shape order = Shape::filled(rank, 0);
    for (int i = 0; i < rank; ++i) order[i] = i;
    for (int i = rank - 1; i > 0; --i) std::swap(order[i], order[static_cast<int>(below(i + 1))]);
    return order;
  }

 private:
  uint64_t state_;
};

}  // namespace ashlar::conformance

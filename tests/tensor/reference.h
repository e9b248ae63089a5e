// Plain loops in double to compare the forms with.
#pragma once

#include <random>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "tests/tensor/model.h"

namespace ashlar::testing {

/// `count` multiples of 1/8 in [-8, 8]: sums of thousands of them are exact in float.
std::vector<float> eighths(std::mt19937& random, int64_t count);

/// A view with values of `eighths` and those values, row-major. Its base is bigger, permuted, perhaps reversed.
struct Operand {
  Tensor tensor;
  std::vector<float> values;
  float at(const Shape& index) const;
};
Operand operand(std::mt19937& random, const Shape& shape, Device device);

/// An operand that only spans some of `shape`: sizes of 1 here and there, leading dimensions missing.
Operand broadcastable(std::mt19937& random, const Shape& shape, Device device);

/// The element that `index` meets when `x` is broadcast to the index's shape.
float broadcast_at(const Operand& x, const Shape& index);

}  // namespace ashlar::testing

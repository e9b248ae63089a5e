#include "tests/tensor/reference.h"

namespace ashlar::testing {

std::vector<float> eighths(std::mt19937& random, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; i++) values.push_back(static_cast<float>(random_integer(random, -64, 64)) / 8);
  return values;
}

float Operand::at(const Shape& index) const {
  int64_t place = 0;
  for (int i = 0; i < index.rank(); i++) place = place * tensor.shape()[i] + index[i];
  return values[static_cast<size_t>(place)];
}

Operand operand(std::mt19937& random, const Shape& shape, Device device) {
  Operand x;
  x.values = eighths(random, shape.numel());
  x.tensor = scattered(random, x.values, shape, device);
  return x;
}

Operand broadcastable(std::mt19937& random, const Shape& shape, Device device) {
  Shape own = shape;
  for (int64_t& size : own) {
    if (random_integer(random, 0, 2) == 0) size = 1;
  }
  while (!own.empty() && random_integer(random, 0, 3) == 0) own.erase(0);
  return operand(random, own, device);
}

float broadcast_at(const Operand& x, const Shape& index) {
  Shape own = x.tensor.shape();
  const int lead = index.rank() - own.rank();
  for (int i = 0; i < own.rank(); i++) own[i] = own[i] == 1 ? 0 : index[lead + i];
  return x.at(own);
}

}  // namespace ashlar::testing

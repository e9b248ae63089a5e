#include "nn/initial.h"

#include <cstdint>
#include <vector>

#include "runtime/memory/host_memory.h"

namespace ashlar::nn {

Tensor initial_uniform(const Shape& shape, float low, float high, const Placement& placement) try {
  const Tensor unit = placement.random != nullptr ? Tensor::rand(shape, *placement.random) : Tensor::rand(shape);
  std::vector<float> values = unit.to_vector<float>();
  for (float& value : values) value = low + (high - low) * value;
  return Tensor::from(values, shape).to(placement.dtype).to(placement.device);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("initial_uniform");
}

Tensor initial_full(const Shape& shape, double value, const Placement& placement) {
  return Tensor::full(shape, value, placement.dtype, placement.device);
}

int64_t initial_seed(Random* random) {
  constexpr int64_t kSeeds = int64_t{1} << 62;
  const Tensor seed = random != nullptr ? Tensor::randint(0, kSeeds, {1}, *random) : Tensor::randint(0, kSeeds, {1});
  return seed.to_vector<int64_t>()[0];
}

}  // namespace ashlar::nn

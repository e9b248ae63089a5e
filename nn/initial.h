// First values of parameters.
#pragma once

#include "runtime/tensor/random.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// Where and how a module's parameters are made; each module's options have these three members.
struct Placement {
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< drawn from; none: the process's own (manual_seed())
};

/// What a module's options say of it.
template <class Options>
Placement placement_of(const Options& options) {
  return {options.device, options.dtype, options.random};
}

/// Uniform in [low, high), drawn in f32 on the host: the same on every device.
Tensor initial_uniform(const Shape& shape, float low, float high, const Placement& placement);
Tensor initial_full(const Shape& shape, double value, const Placement& placement);
/// A number to seed a stream of random numbers of its own with.
int64_t initial_seed(Random* random);

}  // namespace ashlar::nn

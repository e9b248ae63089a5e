// Values that parameters begin with: those that modules are made with, and those that are written over them, whose
// names, arguments and defaults are torch.nn.init's.
#pragma once

#include <cstdint>

#include "autograd/var.h"
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

/// Uniform in [low, high), or normal, drawn in f32 on the host: the same on every device.
Tensor initial_uniform(const Shape& shape, float low, float high, const Placement& placement);
Tensor initial_normal(const Shape& shape, double mean, double std, const Placement& placement);
Tensor initial_full(const Shape& shape, double value, const Placement& placement);
/// A number to seed a stream of random numbers of its own with.
int64_t initial_seed(Random* random);

}  // namespace ashlar::nn

/// Drawn where the parameter lies (uniform numbers are the same on every device, normal ones to their last digits), of
/// a stream seeded from `random`; none: the process's own (manual_seed()).
namespace ashlar::nn::init {

enum class FanMode : uint8_t { fan_in, fan_out };
enum class Nonlinearity : uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };

/// By how much an activation lessens the standard deviation: √2 for relu, √(2 / (1 + a²)) for leaky_relu of slope a.
double calculate_gain(Nonlinearity nonlinearity, double a = 0.01);

void constant_(const Var& parameter, double value);
inline void zeros_(const Var& parameter) { constant_(parameter, 0); }
inline void ones_(const Var& parameter) { constant_(parameter, 1); }
void uniform_(const Var& parameter, double low = 0, double high = 1, Random* random = nullptr);
void normal_(const Var& parameter, double mean = 0, double std = 1, Random* random = nullptr);
void trunc_normal_(const Var& parameter, double mean = 0, double std = 1, double a = -2, double b = 2,
                   Random* random = nullptr);

/// Uniform within ±gain √(6 / (fan_in + fan_out)), or normal with std gain √(2 / (fan_in + fan_out)) (Glorot and Bengio
/// 2010). A parameter is [out, in, …]: fan_in counts in and what follows, fan_out out and what follows in. Throws
/// ShapeError below rank 2.
void xavier_uniform_(const Var& parameter, double gain = 1, Random* random = nullptr);
void xavier_normal_(const Var& parameter, double gain = 1, Random* random = nullptr);

struct KaimingOptions {
  double a = 0;  ///< the slope of leaky_relu
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
  Random* random = nullptr;
};

/// Uniform within ±gain √(3 / fan), or normal with std gain / √fan (He et al. 2015). Otherwise as xavier_uniform_().
void kaiming_uniform_(const Var& parameter, const KaimingOptions& options = {});
void kaiming_normal_(const Var& parameter, const KaimingOptions& options = {});

/// gain times a matrix [out, rest] whose rows, or columns if there are fewer of these, are orthonormal, evenly among
/// all such (Saxe et al. 2013): the q of qr() of normal numbers (Mezzadri 2007). Throws ShapeError below rank 2.
void orthogonal_(const Var& parameter, double gain = 1, Random* random = nullptr);

}  // namespace ashlar::nn::init

#include "nn/init.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ashlar/ops/linear_algebra.h"
#include "ashlar/ops/random.h"
#include "ashlar/ops/unary.h"
#include "runtime/memory/host_memory.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Tensor initial_uniform(const Shape& shape, float low, float high, const Placement& placement) try {
  const Tensor unit = placement.random != nullptr ? Tensor::rand(shape, *placement.random) : Tensor::rand(shape);
  std::vector<float> values = unit.to_vector<float>();
  for (float& value : values) value = low + (high - low) * value;
  return Tensor::from(values, shape).to(placement.dtype).to(placement.device);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("initial_uniform");
}

Tensor initial_normal(const Shape& shape, double mean, double std, const Placement& placement) {
  const Tensor drawn = placement.random != nullptr ? Tensor::randn(shape, *placement.random) : Tensor::randn(shape);
  return ashlar::affine(drawn, std, mean).to(placement.dtype).to(placement.device);
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

namespace ashlar::nn::init {
namespace {

/// Writes what `draw` makes of a stream of its own.
template <class Draw>
void overwrite(const Var& parameter, Random* random, const Draw& draw) {
  const Tensor& value = parameter.value();
  const Tensor made = draw(philox_state(initial_seed(random), value.device()), value.shape());
  value.copy_(made.to(value.dtype()));
}

struct Fans {
  double in, out;

  Fans(const char* operation, const Var& parameter) {
    const Shape& shape = parameter.shape();
    if (shape.rank() < 2) {
      throw ShapeError(operation, parameter.value().str(), "a parameter of rank 2 or more, [out, in, …]",
                       "Give a bias zeros, or numbers by uniform_()");
    }
    double window = 1;
    for (int i = 2; i < shape.rank(); i++) window *= static_cast<double>(shape[i]);
    in = static_cast<double>(shape[1]) * window;
    out = static_cast<double>(shape[0]) * window;
  }
};

double kaiming_std(const char* operation, const Var& parameter, const KaimingOptions& options) {
  const Fans fans(operation, parameter);
  const double fan = options.mode == FanMode::fan_in ? fans.in : fans.out;
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(fan);
}

}  // namespace

double calculate_gain(Nonlinearity nonlinearity, double a) {
  switch (nonlinearity) {
    case Nonlinearity::tanh:
      return 5.0 / 3;
    case Nonlinearity::relu:
      return std::sqrt(2.0);
    case Nonlinearity::leaky_relu:
      return std::sqrt(2 / (1 + a * a));
    case Nonlinearity::selu:
      return 0.75;
    default:
      return 1;
  }
}

void constant_(const Var& parameter, double value) { parameter.value().fill_(value); }

void uniform_(const Var& parameter, double low, double high, Random* random) {
  overwrite(parameter, random,
            [&](const Tensor& state, const Shape& shape) { return ashlar::uniform(state, low, high, shape); });
}

void normal_(const Var& parameter, double mean, double std, Random* random) {
  overwrite(parameter, random,
            [&](const Tensor& state, const Shape& shape) { return ashlar::normal(state, mean, std, shape); });
}

void trunc_normal_(const Var& parameter, double mean, double std, double a, double b, Random* random) {
  overwrite(parameter, random, [&](const Tensor& state, const Shape& shape) {
    return ashlar::trunc_normal(state, mean, std, a, b, shape);
  });
}

void xavier_uniform_(const Var& parameter, double gain, Random* random) {
  const Fans fans("xavier_uniform_", parameter);
  const double bound = gain * std::sqrt(6 / (fans.in + fans.out));
  uniform_(parameter, -bound, bound, random);
}

void xavier_normal_(const Var& parameter, double gain, Random* random) {
  const Fans fans("xavier_normal_", parameter);
  normal_(parameter, 0, gain * std::sqrt(2 / (fans.in + fans.out)), random);
}

void kaiming_uniform_(const Var& parameter, const KaimingOptions& options) {
  const double bound = std::sqrt(3.0) * kaiming_std("kaiming_uniform_", parameter, options);
  uniform_(parameter, -bound, bound, options.random);
}

void kaiming_normal_(const Var& parameter, const KaimingOptions& options) {
  normal_(parameter, 0, kaiming_std("kaiming_normal_", parameter, options), options.random);
}

void orthogonal_(const Var& parameter, double gain, Random* random) try {
  const Tensor& value = parameter.value();
  if (value.rank() < 2) {
    throw ShapeError("orthogonal_", value.str(), "a parameter of rank 2 or more", "Reshape it to a matrix");
  }
  if (value.numel() == 0) return;
  const int64_t rows = value.size(0), columns = value.numel() / rows, count = std::min(rows, columns);
  overwrite(parameter, random, [&](const Tensor& state, const Shape& shape) {
    const Tensor drawn = ashlar::normal(state, 0, 1, {count, std::max(rows, columns)});
    const Tensor q = ashlar::qr(drawn.permute({1, 0})).q;
    return ashlar::affine(rows <= columns ? q.permute({1, 0}) : q, gain, 0).reshape(shape);
  });
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("orthogonal_");
}

}  // namespace ashlar::nn::init

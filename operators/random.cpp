// Random numbers of several distributions, and dropout (generators/random.cpp).
#include "ashlar/ops/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

#include "ashlar/ops/argsort.h"
#include "ashlar/ops/compare.h"
#include "runtime/forms/check.h"
#include "runtime/memory/host_memory.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

struct Parameter {
  const char* name;
  double value;
};

void require(const char* operation, bool holds, std::initializer_list<Parameter> parameters, const char* needed) {
  if (holds) return;
  std::ostringstream came;
  for (const auto& [name, value] : parameters) came << (came.tellp() > 0 ? ", " : "") << name << " = " << value;
  throw ValueError(operation, came.str(), needed, "Check the distribution's parameters");
}

}  // namespace

Tensor uniform(const Tensor& state, double low, double high, const Shape& shape) {
  return philox_uniform(state, shape, low, high);
}

Tensor normal(const Tensor& state, double mean, double std, const Shape& shape) {
  require("normal", std >= 0 && std::isfinite(std), {{"std", std}}, "a std of 0 or more");
  const std::array<Scalar, 2> parameters{mean, std};
  return philox_draw("normal", kernels::philox_normal, state, shape, DType::f32, parameters);
}

Tensor trunc_normal(const Tensor& state, double mean, double std, double a, double b, const Shape& shape) {
  require("trunc_normal", std > 0 && std::isfinite(std), {{"std", std}}, "a std above 0");
  require("trunc_normal", a < b, {{"a", a}, {"b", b}}, "a < b");
  // The bounds as erf sees them: twice the distribution function, less 1.
  const auto place = [&](double bound) { return std::erf((bound - mean) / (std * std::sqrt(2.0))); };
  const double low = place(a), high = place(b);
  require("trunc_normal", static_cast<float>(high) > static_cast<float>(low),
          {{"a", a}, {"b", b}, {"mean", mean}, {"std", std}},
          "bounds between which f32 tells numbers apart: within about 5 std of the mean");
  constexpr double kMost = std::numeric_limits<float>::max();
  const std::array<Scalar, 6> parameters{mean, std, low, high - low, std::max(a, -kMost), std::min(b, kMost)};
  return philox_draw("trunc_normal", kernels::philox_truncated, state, shape, DType::f32, parameters);
}

Tensor randint(const Tensor& state, int64_t low, int64_t high, const Shape& shape) {
  require("randint", low < high, {{"low", static_cast<double>(low)}, {"high", static_cast<double>(high)}},
          "low < high");
  const auto count = static_cast<int64_t>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
  const std::array<Scalar, 2> parameters{low, count};
  return philox_draw("randint", kernels::philox_integers, state, shape, DType::i64, parameters, 2);
}

Tensor randperm(const Tensor& state, int64_t n) {
  require("randperm", n >= 0 && n <= INT32_MAX, {{"n", static_cast<double>(n)}}, "n from 0 to 2^31 - 1");
  return argsort(randint(state, 0, INT64_MAX, {n}));
}

Tensor bernoulli(const Tensor& state, const Tensor& p) try {
  forms::key_of(kernels::bernoulli, {.inputs = std::array{state, p}});
  return lt(philox_uniform(state, p.shape()), p.to(DType::f32)).to(p.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("bernoulli");
}

Tensor dropout_at(const Tensor& x, const Tensor& state, double p) try {
  forms::key_of(kernels::dropout_at, {.inputs = std::array{x, state}});
  check_philox_state("dropout_at", state);
  require("dropout_at", p >= 0 && p <= 1, {{"p", p}}, "a probability from 0 to 1");
  const Tensor result = Tensor::empty(x.shape(), x.dtype(), x.device());
  const int64_t count = x.numel();
  const Tensor from = x.contiguous().reshape({count}), to = result.reshape({count});
  const auto threshold = static_cast<int64_t>(std::ceil(p * 0x1p24));
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  constexpr int64_t kMost = int64_t{1} << 30;  // elements of one launch
  for (int64_t begin = 0; begin < count; begin += kMost) {
    const int64_t end = std::min(count, begin + kMost);
    const std::array<Scalar, 3> scalars{begin / 4, threshold, scale};
    const Tensor part = to.slice(0, begin, end);
    launch(kernels::philox_dropout, {.elements = {x.dtype()}}, std::array{state, from.slice(0, begin, end)}, scalars,
           std::span(&part, 1));
  }
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("dropout_at");
}

}  // namespace ashlar

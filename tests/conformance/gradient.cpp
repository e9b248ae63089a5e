#include "tests/conformance/gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "autograd/backward.h"
#include "tests/conformance/check.h"
#include "tests/conformance/inputs.h"

namespace ashlar::conformance {
namespace {

constexpr int kReported = 5;
constexpr double kFloor = 1e-6;        // terms of size 1 that cancel leave that much in f32
constexpr double kFloorOfSums = 2e-5;  // the same of many terms up to 10

// Several kernels may round in between, so the storage type decides.
double relative_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 1e-2;
    case DType::bf16:
      return 6e-2;
    case DType::f64:
      return 1e-6;
    default:
      return 2e-4;
  }
}

// An index along an axis: its ends and the neighbourhood of tiles' edges, where loops begin, end and are cut.
int64_t near_an_edge(int64_t extent, uint64_t bits) {
  constexpr int64_t kTiles[] = {32, 64, 128, 256, 1024};
  const int64_t tile = kTiles[bits % 5];
  const auto more = static_cast<int64_t>(mix(bits) >> 2);
  if (extent < tile || more % 4 == 0) return more / 4 % 2 == 0 ? 0 : extent - 1;
  const int64_t edge = more / 4 % (extent / tile) * tile + tile;
  return std::min(edge - 1 + more / 4 % 2, extent - 1);
}

// Row-major positions in `shape`: all of them where they are few.
std::vector<int64_t> sampled_positions(const Shape& shape, int64_t samples, uint64_t seed) {
  const int64_t count = shape.numel();
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < count && count <= samples; ++i) positions.push_back(i);
  for (int64_t i = 0; i < samples && count > samples; ++i) {
    const uint64_t bits = mix(seed + static_cast<uint64_t>(i));
    int64_t position = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      position = position * shape[axis] + near_an_edge(shape[axis], mix(bits + static_cast<uint64_t>(axis)));
    }
    positions.push_back(i % 2 == 0 ? position : static_cast<int64_t>(bits % static_cast<uint64_t>(count)));
  }
  return positions;
}

// L's slopes along one element, from both sides and through it, and the sum of the sizes of its terms.
struct Slopes {
  double left = 0, middle = 0, right = 0, terms = 0;
};

// Differences of single results, each weighted, so that all those that don't depend on the element add exactly 0.
Slopes slopes(const Case& item, std::vector<HostTensor>& hosts, double& x, const std::vector<double>& here,
              const std::vector<double>& weights) {
  const double middle = x;
  const double h = 1e-5 * std::max(std::abs(middle), 1.0);
  x = middle + h;
  const std::vector<double> above = item.reference(hosts)[0].values;
  x = middle - h;
  const std::vector<double> below = item.reference(hosts)[0].values;
  x = middle;
  Slopes sums;
  for (size_t i = 0; i < weights.size(); ++i) {
    sums.left += weights[i] * (here[i] - below[i]) / h;
    sums.right += weights[i] * (above[i] - here[i]) / h;
    sums.middle += weights[i] * (above[i] - below[i]) / (2 * h);
    sums.terms += std::abs(weights[i] * (above[i] - below[i]) / (2 * h));
  }
  return sums;
}

std::string check_differences(const Case& item, DType dtype, Device device, const GradientCheck& how) {
  const uint64_t seed = seed_of(item.kernel + "/" + item.name);
  std::vector<HostTensor> hosts;
  std::vector<Var> inputs;
  for (size_t i = 0; i < item.inputs.size(); ++i) {
    Made made = make(item.inputs[i], dtype, device, seed + i);
    const bool wanted = std::ranges::find(item.differentiated, static_cast<int>(i)) != item.differentiated.end();
    hosts.push_back(std::move(made.host));
    inputs.emplace_back(std::move(made.tensor), wanted);
  }
  const Var result = item.differentiable(inputs);
  const HostTensor weights{
      result.shape(), draw({.low = 0.25, .high = 1}, result.shape().numel(), result.dtype(), ~seed), result.dtype()};
  backward(result, {.seed = upload(weights, device)});

  const std::vector<double> here = item.reference(hosts)[0].values;
  std::string report;
  int wrong = 0;
  for (const int index : item.differentiated) {
    const Tensor& gradient = inputs[index].grad();
    if (!gradient.defined()) return "input " + std::to_string(index) + " got no gradient";
    const HostTensor got = download(gradient);
    if (!(got.shape == hosts[index].shape)) {
      return "the gradient of input " + std::to_string(index) + " has shape " + got.shape.str() + ", expected " +
             hosts[index].shape.str();
    }
    std::vector<double>& x = hosts[index].values;
    const std::vector<int64_t> positions = sampled_positions(hosts[index].shape, how.samples, seed);
    std::vector<Slopes> expected;
    double largest = 0;
    for (const int64_t at : positions) {
      expected.push_back(slopes(item, hosts, x[at], here, weights.values));
      largest = std::max(largest, std::abs(expected.back().middle));
    }
    for (size_t i = 0; i < positions.size(); ++i) {
      const Slopes& slope = expected[i];
      const double g = got.values[positions[i]];
      // Where sums were taken in f32, one rounding to 16 bits and what f32 loses is all.
      const double of_terms = how.of_terms * slope.terms;
      const double allowed =
          item.gradient_is_rounded_once && size_of(dtype) == 2
              ? ulp(slope.middle, dtype) + kFloorOfSums + relative_tolerance(DType::f32) * of_terms
              : relative_tolerance(dtype) * (std::abs(slope.middle) + 0.05 * largest + of_terms) + kFloor;
      const auto [low, high] = std::minmax({slope.left, slope.middle, slope.right});
      // Rounded as the gradient is: one that doesn't fit is infinite.
      const bool agrees = g >= rounded(low - allowed, got.dtype) && g <= rounded(high + allowed, got.dtype);
      if (agrees || ++wrong > kReported) continue;
      char line[160];
      std::snprintf(line, sizeof line, "\n  input %d, element %lld: gradient %.9g, differences give %.9g, allowed %.3g",
                    index, static_cast<long long>(positions[i]), g, slope.middle, allowed);
      report += line;
    }
  }
  if (!wrong) return {};
  return std::to_string(wrong) + " gradient elements are wrong:" + report;
}

}  // namespace

std::string check_gradient(const Case& item, DType dtype, Device device, const GradientCheck& how) {
  return with_guard_bands([&] { return check_differences(item, dtype, device, how); });
}

}  // namespace ashlar::conformance

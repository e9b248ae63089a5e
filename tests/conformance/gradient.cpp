#include "tests/conformance/gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "autograd/backward.h"
#include "tests/conformance/check.h"
#include "tests/conformance/inputs.h"

namespace ashlar::conformance {
namespace {

constexpr int64_t kSampled = 48;  // elements of one input whose difference quotient is taken
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

double weighted_sum(const std::vector<double>& values, const std::vector<double>& weights) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i];
  return sum;
}

std::vector<size_t> sampled_positions(size_t count, uint64_t seed) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < count && count <= kSampled; ++i) positions.push_back(i);
  for (int64_t i = 0; i < kSampled && count > kSampled; ++i) positions.push_back(mix(seed + i) % count);
  return positions;
}

std::string check_differences(const Case& item, DType dtype, Device device) {
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
    const std::vector<size_t> positions = sampled_positions(x.size(), seed);
    std::vector<double> differences;
    double largest = 0;
    for (const size_t at : positions) {
      const double middle = x[at];
      const double h = 1e-5 * std::max(std::abs(middle), 1.0);
      x[at] = middle + h;
      const double above = weighted_sum(item.reference(hosts)[0].values, weights.values);
      x[at] = middle - h;
      const double below = weighted_sum(item.reference(hosts)[0].values, weights.values);
      x[at] = middle;
      differences.push_back((above - below) / (2 * h));
      largest = std::max(largest, std::abs(differences.back()));
    }
    for (size_t i = 0; i < positions.size(); ++i) {
      const double g = got.values[positions[i]];
      const double allowed = item.gradient_is_rounded_once && size_of(dtype) == 2
                                 ? ulp(differences[i], dtype) + kFloorOfSums
                                 : relative_tolerance(dtype) * (std::abs(differences[i]) + 0.05 * largest) + kFloor;
      if (std::abs(g - differences[i]) <= allowed || ++wrong > kReported) continue;
      char line[160];
      std::snprintf(line, sizeof line, "\n  input %d, element %zu: gradient %.9g, differences give %.9g, allowed %.3g",
                    index, positions[i], g, differences[i], allowed);
      report += line;
    }
  }
  if (!wrong) return {};
  return std::to_string(wrong) + " gradient elements are wrong:" + report;
}

}  // namespace

std::string check_gradient(const Case& item, DType dtype, Device device) {
  return with_guard_bands([&] { return check_differences(item, dtype, device); });
}

}  // namespace ashlar::conformance

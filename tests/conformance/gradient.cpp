#include "tests/conformance/gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "autograd/backward.h"
#include "autograd/grad.h"
#include "runtime/support/error.h"
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

// A case's inputs, made anew, with the gradients of its result times weights.
struct Differentiated {
  std::vector<HostTensor> hosts;
  std::vector<Var> inputs;
  HostTensor weights;
  std::string report;  ///< of inputs that were changed

  Differentiated(const Case& item, DType dtype, Device device, uint64_t seed) {
    std::vector<std::vector<std::byte>> before;
    for (size_t i = 0; i < item.inputs.size(); ++i) {
      Made made = make(item.inputs[i], dtype, device, seed + i);
      before.push_back(storage_bytes(made.tensor));
      hosts.push_back(std::move(made.host));
      inputs.emplace_back(std::move(made.tensor), std::ranges::count(item.differentiated, static_cast<int>(i)) > 0);
    }
    const Var result = item.differentiable(inputs);
    weights = {result.shape(), draw({.low = 0.25, .high = 1}, result.shape().numel(), result.dtype(), ~seed),
               result.dtype()};
    backward(result, {.seed = upload(weights, device)});
    for (size_t i = 0; i < inputs.size() && !item.in_place; ++i) {
      if (storage_bytes(inputs[i].value()) != before[i]) report = "input " + std::to_string(i) + " was changed";
    }
  }
};

std::string check_differences(const Case& item, DType dtype, Device device, const GradientCheck& how) {
  const uint64_t seed = seed_of(item.kernel + "/" + item.name);
  auto [hosts, inputs, weights, changed] = Differentiated(item, dtype, device, seed);
  if (!changed.empty()) return changed;
  {
    const Differentiated again(item, dtype, device, seed);
    for (const int index : item.differentiated) {
      const Tensor &one = inputs[index].grad(), &other = again.inputs[index].grad();
      if (one.defined() && other.defined() && same_elements(one, other)) continue;
      if (!one.defined() && !other.defined()) continue;
      return "the gradient of input " + std::to_string(index) + " differs between two calls with the same inputs";
    }
  }

  const std::vector<double> here = item.reference(hosts)[0].values;
  // What is 0 in each of n results (a softmax of one term) leaves n roundings of either sign, of sums that grow as well.
  const double floor = kFloor * std::max(1.0, std::sqrt(static_cast<double>(here.size())) / 8);
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
              : relative_tolerance(dtype) * (std::abs(slope.middle) + 0.05 * largest + of_terms) + floor;
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

// ---- second gradients

constexpr int64_t kLargestForSecond = 1 << 13;  // elements: each one's difference takes eight evaluations
constexpr int64_t kSecondSamples = 12;

// L = Σ w f(x), S = Σ v dL/dx: how far apart S's gradients by x and w are from differences of f.
class SecondGradients {
 public:
  SecondGradients(const Case& item, Device device) : item_(item), device_(device) {}

  SecondCheck check(const GradientCheck& how) {
    using Outcome = SecondCheck::Outcome;
    const uint64_t seed = seed_of(item_.kernel + "/" + item_.name);
    for (size_t i = 0; i < item_.inputs.size(); ++i) {
      Made made = make(item_.inputs[i], DType::f32, device_, seed + i);
      const bool wanted = is_differentiated(static_cast<int>(i));
      hosts_.push_back(std::move(made.host));
      inputs_.emplace_back(std::move(made.tensor), wanted);
      directions_.push_back({hosts_[i].shape,
                             draw({.low = 0.25, .high = 1}, hosts_[i].shape.numel(), DType::f32, ~(seed + i)),
                             DType::f32});
      if (hosts_[i].shape.numel() > kLargestForSecond) return {Outcome::too_large, {}};
    }
    const Var y = item_.differentiable(inputs_);
    if (y.numel() > kLargestForSecond) return {Outcome::too_large, {}};
    weights_ = {y.shape(), draw({.low = 0.25, .high = 1}, y.numel(), y.dtype(), ~seed), y.dtype()};
    const Var weights(upload(weights_, device_), true);

    std::vector<Var> variables, first_seeds;
    for (const int index : item_.differentiated) variables.push_back(inputs_[static_cast<size_t>(index)]);
    const std::vector<Var> first = grad({y}, variables, {weights}, {.create_graph = true});
    for (const int index : item_.differentiated) {
      first_seeds.emplace_back(upload(directions_[static_cast<size_t>(index)], device_));
    }
    variables.push_back(weights);
    const std::vector<Var> second = grad(first, variables, first_seeds, {.allow_unused = true});

    std::string report;
    const HostTensor of_weights = download(second.back().value());
    compare_weights(of_weights, report);
    for (size_t i = 0; i + 1 < second.size(); ++i) {
      const auto index = static_cast<size_t>(item_.differentiated[i]);
      // None at all stands for 0: what is linear in x.
      HostTensor got{hosts_[index].shape, std::vector<double>(hosts_[index].values.size()), DType::f32};
      if (second[i].defined()) got = download(second[i].value());
      compare_input(index, got, std::min(how.samples, kSecondSamples), seed, report);
    }
    if (wrong_ == 0) return {Outcome::agrees, {}};
    return {Outcome::differs, std::to_string(wrong_) + " elements of second gradients are wrong:" + report};
  }

 private:
  static constexpr double kStep = 1e-4;  // differences of second order leave about 1e-8 of f

  bool is_differentiated(int input) const {
    return std::ranges::find(item_.differentiated, input) != item_.differentiated.end();
  }

  // f(x + t v)
  std::vector<double> along(double t) {
    std::vector<HostTensor> moved = hosts_;
    for (const int index : item_.differentiated) {
      const auto i = static_cast<size_t>(index);
      for (size_t at = 0; at < moved[i].values.size(); ++at) moved[i].values[at] += t * directions_[i].values[at];
    }
    return item_.reference(moved)[0].values;
  }

  // dS/dw[j] = d/dt f(x + t v)[j]
  void compare_weights(const HostTensor& got, std::string& report) {
    const double t = kStep / 10;
    const std::vector<double> above = along(t), below = along(-t), here = along(0);
    double largest = 0;
    for (size_t j = 0; j < here.size(); ++j) largest = std::max(largest, std::abs((above[j] - below[j]) / (2 * t)));
    for (size_t j = 0; j < here.size(); ++j) {
      const double left = (here[j] - below[j]) / t, right = (above[j] - here[j]) / t, middle = (left + right) / 2;
      const double allowed = 2e-4 * (std::abs(middle) + 0.1 * largest) + kFloorOfSums;
      const auto [low, high] = std::minmax({left, right});
      tell(got.values[j] >= low - allowed && got.values[j] <= high + allowed, "weight", j, got.values[j], middle,
           allowed, report);
    }
  }

  // d/dx[at] d/dt L(x + t v), and the sum of its terms' sizes
  std::pair<double, double> mixed(size_t index, int64_t at, double step) {
    double& x = hosts_[index].values[static_cast<size_t>(at)];
    const double middle = x, h = step * std::max(std::abs(middle), 1.0);
    x = middle + h;
    const std::vector<double> above = along(step), right = along(-step);
    x = middle - h;
    const std::vector<double> left = along(step), below = along(-step);
    x = middle;
    double sum = 0, terms = 0;
    for (size_t j = 0; j < above.size(); ++j) {
      const double term = weights_.values[j] * (above[j] - right[j] - left[j] + below[j]) / (4 * h * step);
      sum += term;
      terms += std::abs(term);
    }
    return {sum, terms};
  }

  void compare_input(size_t index, const HostTensor& got, int64_t samples, uint64_t seed, std::string& report) {
    std::vector<std::pair<int64_t, std::array<double, 3>>> expected;  // with the two differences and the terms
    double largest = 0;
    for (const int64_t at : sampled_positions(hosts_[index].shape, samples, seed)) {
      const auto [fine, terms] = mixed(index, at, kStep);
      const double coarse = mixed(index, at, 3 * kStep).first;
      expected.push_back({at, {fine, coarse, terms}});
      largest = std::max(largest, std::abs(fine));
    }
    for (const auto& [at, values] : expected) {
      const auto [fine, coarse, terms] = values;
      const double allowed = 1e-3 * (std::abs(fine) + 0.05 * largest + 0.05 * terms) + kFloorOfSums;
      const double g = got.values[static_cast<size_t>(at)];
      if (std::abs(fine - coarse) > allowed) continue;  // a kink among them: no second derivative
      const std::string what = "input " + std::to_string(index);
      tell(std::abs(g - fine) <= allowed, what.c_str(), static_cast<size_t>(at), g, fine, allowed, report);
    }
  }

  void tell(bool agrees, const char* what, size_t at, double got, double expected, double allowed,
            std::string& report) {
    if (agrees || ++wrong_ > kReported) return;
    char line[200];
    std::snprintf(line, sizeof line, "\n  %s, element %zu: second gradient %.9g, differences give %.9g, allowed %.3g",
                  what, at, got, expected, allowed);
    report += line;
  }

  const Case& item_;
  Device device_;
  std::vector<HostTensor> hosts_, directions_;
  std::vector<Var> inputs_;
  HostTensor weights_;
  int wrong_ = 0;
};

}  // namespace

SecondCheck check_second_gradient(const Case& item, Device device, const GradientCheck& how) {
  try {
    return SecondGradients(item, device).check(how);
  } catch (const AutogradError& error) {
    const std::string_view message = error.what();
    for (const char* once : {"got gradients of gradients through ", "got a gradient through "}) {
      if (message.find(once) != std::string_view::npos) {
        return {SecondCheck::Outcome::refused, std::string(message)};
      }
    }
    throw;
  }
}

std::string check_gradient(const Case& item, DType dtype, Device device, const GradientCheck& how) {
  return with_guard_bands([&] {
    std::string report = check_differences(item, dtype, device, how);
    // 16-bit results of several kernels leave differences of differences too few digits.
    if (report.empty() && dtype == DType::f32 && how.twice) {
      // What can't be differentiated twice has to say so; whether it could be is its author's business.
      const SecondCheck second = check_second_gradient(item, device, how);
      if (second.outcome == SecondCheck::Outcome::differs) report = second.report;
    }
    return report;
  });
}

}  // namespace ashlar::conformance

#include "tests/conformance/gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

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

// L's slopes along one element, from both sides and through it, how much they change, and the sum of the sizes of L's
// terms.
struct Slopes {
  double left = 0, middle = 0, right = 0, change = 0, terms = 0;
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
    sums.change += std::abs(weights[i] * (above[i] - 2 * here[i] + below[i]) / (h * h));
    sums.terms += std::abs(weights[i] * (above[i] - below[i]) / (2 * h));
  }
  return sums;
}

class FirstGradients {
 public:
  FirstGradients(DrawnCase& drawn, const GradientCheck& how) : drawn_(drawn), how_(how) {}

  std::string check(Device device) {
    const Case& item = drawn_.item();
    const Run first = run(device);
    if (!first.report.empty()) return first.report;
    {
      const Run again = run(device);
      for (const int index : item.differentiated) {
        const Tensor &one = first.inputs[index].grad(), &other = again.inputs[index].grad();
        if (one.defined() && other.defined() && same_elements(one, other)) continue;
        if (!one.defined() && !other.defined()) continue;
        return "the gradient of input " + std::to_string(index) + " differs between two calls with the same inputs";
      }
    }
    std::string report;
    int wrong = 0;
    for (const int index : item.differentiated) {
      const Tensor& gradient = first.inputs[index].grad();
      if (!gradient.defined()) return "input " + std::to_string(index) + " got no gradient";
      const HostTensor got = download(gradient);
      const Shape& shape = item.inputs[static_cast<size_t>(index)].shape;
      if (!(got.shape == shape)) {
        return "the gradient of input " + std::to_string(index) + " has shape " + got.shape.str() + ", expected " +
               shape.str();
      }
      compare_input(index, got, report, wrong);
    }
    if (!wrong) return {};
    return std::to_string(wrong) + " gradient elements are wrong:" + report;
  }

 private:
  // Inputs made anew, with the gradients of the result times weights.
  struct Run {
    std::vector<Var> inputs;
    std::string report = {};  ///< of inputs that were changed
  };
  // Differences for one input, at some of its elements.
  struct Differences {
    std::vector<int64_t> positions;
    std::vector<Slopes> slopes = {};
    double largest = 0;
  };

  Run run(Device device) {
    const Case& item = drawn_.item();
    std::vector<std::vector<std::byte>> before;
    Run made;
    for (Tensor& tensor : drawn_.tensors(device)) {
      before.push_back(storage_bytes(tensor));
      const bool wanted = std::ranges::count(item.differentiated, static_cast<int>(made.inputs.size())) > 0;
      made.inputs.emplace_back(std::move(tensor), wanted);
    }
    const Var result = item.differentiable(made.inputs);
    if (!weights_ || !(weights_->shape == result.shape()) || weights_->dtype != result.dtype()) {
      weights_ = {result.shape(),
                  draw({.low = 0.25, .high = 1}, result.shape().numel(), result.dtype(), ~drawn_.seed()),
                  result.dtype()};
      differences_.clear();
    }
    backward(result, {.seed = upload(*weights_, device)});
    for (size_t i = 0; i < made.inputs.size() && !item.in_place; ++i) {
      if (!same_bytes(storage_bytes(made.inputs[i].value()), before[i])) {
        made.report = "input " + std::to_string(i) + " was changed";
      }
    }
    return made;
  }

  const Differences& differences(int index) {
    if (const auto found = differences_.find(index); found != differences_.end()) return found->second;
    const Case& item = drawn_.item();
    if (hosts_.empty()) {
      hosts_ = drawn_.hosts();
      here_ = item.reference(hosts_)[0].values;
    }
    HostTensor& input = hosts_[static_cast<size_t>(index)];
    Differences all{.positions = sampled_positions(input.shape, how_.samples, drawn_.seed())};
    for (const int64_t at : all.positions) {
      all.slopes.push_back(slopes(item, hosts_, input.values[at], here_, weights_->values));
      all.largest = std::max(all.largest, std::abs(all.slopes.back().middle));
    }
    return differences_.emplace(index, std::move(all)).first->second;
  }

  // A sum of n terms of either sign is off by about √n roundings of what has grown to √n: √n for the results that the
  // floor counts already, √n here.
  double floor_of_sums() const {
    const Case& item = drawn_.item();
    if (!item.gradient_sums_over) return 1;
    const int64_t count = item.inputs[static_cast<size_t>(*item.gradient_sums_over)].shape.back();
    return std::max(1.0, std::sqrt(static_cast<double>(count)) / 3);
  }

  void compare_input(int index, const HostTensor& got, std::string& report, int& wrong) {
    const DType dtype = drawn_.dtype();
    const Differences& expected = differences(index);
    // What is 0 in each of n results (a softmax of one term) leaves n roundings of either sign, of sums that grow as
    // well.
    const double floor = kFloor * std::max(1.0, std::sqrt(static_cast<double>(here_.size())) / 8) * floor_of_sums();
    for (size_t i = 0; i < expected.positions.size(); ++i) {
      const Slopes& slope = expected.slopes[i];
      const double g = got.values[expected.positions[i]];
      // Where sums were taken in f32, one rounding to 16 bits and what f32 loses is all.
      const double of_terms = how_.of_terms * slope.terms;
      double allowed =
          drawn_.item().gradient_is_rounded_once && size_of(dtype) == 2
              ? ulp(slope.middle, dtype) + kFloorOfSums + relative_tolerance(DType::f32) * of_terms
              : relative_tolerance(dtype) * (std::abs(slope.middle) + 0.05 * expected.largest + of_terms) + floor;
      if (const double size = drawn_.item().gradient_rounds_up_to; size > 0 && size_of(dtype) == 2) {
        allowed += slope.change * ulp(size, dtype) / 2;
      }
      const auto [low, high] = std::minmax({slope.left, slope.middle, slope.right});
      // Rounded as the gradient is: one that doesn't fit is infinite.
      const bool agrees = g >= rounded(low - allowed, got.dtype) && g <= rounded(high + allowed, got.dtype);
      if (agrees || ++wrong > kReported) continue;
      char line[160];
      std::snprintf(line, sizeof line, "\n  input %d, element %lld: gradient %.9g, differences give %.9g, allowed %.3g",
                    index, static_cast<long long>(expected.positions[i]), g, slope.middle, allowed);
      report += line;
    }
  }

  DrawnCase& drawn_;
  GradientCheck how_;
  std::optional<HostTensor> weights_;
  std::vector<HostTensor> hosts_;
  std::vector<double> here_;  ///< the reference of `hosts_`
  std::map<int, Differences> differences_;
};

// ---- second gradients

constexpr int64_t kLargestForSecond = 1 << 13;  // elements: each one's difference takes eight evaluations
constexpr int64_t kSecondSamples = 12;

// L = Σ w f(x), S = Σ v dL/dx: how far apart S's gradients by x and w are from differences of f.
class SecondGradients {
 public:
  SecondGradients(DrawnCase& drawn, const GradientCheck& how) : drawn_(drawn), item_(drawn.item()), how_(how) {}

  SecondCheck check(Device device) {
    using Outcome = SecondCheck::Outcome;
    for (const Input& input : item_.inputs) {
      if (input.shape.numel() > kLargestForSecond) return {Outcome::too_large, {}};
    }
    draw_directions();
    std::vector<Var> inputs;
    for (Tensor& tensor : drawn_.tensors(device)) {
      const bool wanted = is_differentiated(static_cast<int>(inputs.size()));
      inputs.emplace_back(std::move(tensor), wanted);
    }
    const Var y = item_.differentiable(inputs);
    if (y.numel() > kLargestForSecond) return {Outcome::too_large, {}};
    weigh(y);
    const Var weights(upload(*weights_, device), true);

    std::vector<Var> variables, first_seeds;
    for (const int index : item_.differentiated) variables.push_back(inputs[static_cast<size_t>(index)]);
    const std::vector<Var> first = grad({y}, variables, {weights}, {.create_graph = true});
    for (const int index : item_.differentiated) {
      first_seeds.emplace_back(upload(directions_[static_cast<size_t>(index)], device));
    }
    variables.push_back(weights);
    const std::vector<Var> second = grad(first, variables, first_seeds, {.allow_unused = true});

    std::string report;
    wrong_ = 0;
    const HostTensor of_weights = download(second.back().value());
    compare_weights(of_weights, report);
    for (size_t i = 0; i + 1 < second.size(); ++i) {
      const auto index = static_cast<size_t>(item_.differentiated[i]);
      // None at all stands for 0: what is linear in x.
      HostTensor got{hosts_[index].shape, std::vector<double>(hosts_[index].values.size()), DType::f32};
      if (second[i].defined()) got = download(second[i].value());
      compare_input(index, got, report);
    }
    if (wrong_ == 0) return {Outcome::agrees, {}};
    return {Outcome::differs, std::to_string(wrong_) + " elements of second gradients are wrong:" + report};
  }

 private:
  static constexpr double kStep = 1e-4;  // differences of second order leave about 1e-8 of f

  // Of the result's weights: dS/dw by differences to both sides.
  struct OfWeights {
    std::vector<double> above, below, here;
  };
  // Of one element: the differences with two steps, and the sum of its terms' sizes.
  struct Mixed {
    int64_t at;
    double fine, coarse, terms;
  };
  struct OfInput {
    std::vector<Mixed> elements = {};
    double largest = 0;
  };

  bool is_differentiated(int input) const {
    return std::ranges::find(item_.differentiated, input) != item_.differentiated.end();
  }

  void draw_directions() {
    if (!hosts_.empty()) return;
    hosts_ = drawn_.hosts();
    for (size_t i = 0; i < hosts_.size(); ++i) {
      const Shape& shape = hosts_[i].shape;
      directions_.push_back(
          {shape, draw({.low = 0.25, .high = 1}, shape.numel(), DType::f32, ~(drawn_.seed() + i)), DType::f32});
    }
  }

  void weigh(const Var& y) {
    if (weights_ && weights_->shape == y.shape() && weights_->dtype == y.dtype()) return;
    weights_ = {y.shape(), draw({.low = 0.25, .high = 1}, y.numel(), y.dtype(), ~drawn_.seed()), y.dtype()};
    of_inputs_.clear();
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
    if (!of_weights_) of_weights_ = {along(t), along(-t), along(0)};
    const auto& [above, below, here] = *of_weights_;
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
      const double term = weights_->values[j] * (above[j] - right[j] - left[j] + below[j]) / (4 * h * step);
      sum += term;
      terms += std::abs(term);
    }
    return {sum, terms};
  }

  const OfInput& of_input(size_t index) {
    if (const auto found = of_inputs_.find(index); found != of_inputs_.end()) return found->second;
    OfInput all;
    const int64_t samples = std::min(how_.samples, kSecondSamples);
    for (const int64_t at : sampled_positions(hosts_[index].shape, samples, drawn_.seed())) {
      const auto [fine, terms] = mixed(index, at, kStep);
      all.elements.push_back({at, fine, mixed(index, at, 3 * kStep).first, terms});
      all.largest = std::max(all.largest, std::abs(fine));
    }
    return of_inputs_.emplace(index, std::move(all)).first->second;
  }

  void compare_input(size_t index, const HostTensor& got, std::string& report) {
    const OfInput& expected = of_input(index);
    for (const auto& [at, fine, coarse, terms] : expected.elements) {
      const double allowed = 1e-3 * (std::abs(fine) + 0.05 * expected.largest + 0.05 * terms) + kFloorOfSums;
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

  DrawnCase& drawn_;
  const Case& item_;
  GradientCheck how_;
  std::vector<HostTensor> hosts_, directions_;
  std::optional<HostTensor> weights_;
  std::optional<OfWeights> of_weights_;
  std::map<size_t, OfInput> of_inputs_;
  int wrong_ = 0;
};

SecondCheck second_check(SecondGradients& second, Device device) {
  try {
    return second.check(device);
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

}  // namespace

SecondCheck check_second_gradient(const Case& item, Device device, const GradientCheck& how) {
  DrawnCase drawn(item, DType::f32);
  SecondGradients second(drawn, how);
  return second_check(second, device);
}

struct GradientsCheck::Parts {
  FirstGradients first;
  SecondGradients second;
  bool twice;
};

// 16-bit results of several kernels leave differences of differences too few digits.
GradientsCheck::GradientsCheck(DrawnCase& drawn, const GradientCheck& how)
    : parts_(new Parts{{drawn, how}, {drawn, how}, drawn.dtype() == DType::f32 && how.twice}) {}

GradientsCheck::~GradientsCheck() = default;

std::string GradientsCheck::operator()(Device device) {
  return with_guard_bands([&] {
    std::string report = parts_->first.check(device);
    if (report.empty() && parts_->twice) {
      // What can't be differentiated twice has to say so; whether it could be is its author's business.
      const SecondCheck second = second_check(parts_->second, device);
      if (second.outcome == SecondCheck::Outcome::differs) report = second.report;
    }
    return report;
  });
}

std::string check_gradient(const Case& item, DType dtype, Device device, const GradientCheck& how) {
  DrawnCase drawn(item, dtype);
  return GradientsCheck(drawn, how)(device);
}

}  // namespace ashlar::conformance

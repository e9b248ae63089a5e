// Chains of two and three small layers, in one launch and layer by layer.
#include <algorithm>
#include <array>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "generators/layer_chain.h"
#include "tests/conformance/cases/by_plan.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

struct Chain {
  std::string name;
  Shape x;
  std::vector<int64_t> units;  ///< of each layer
  LayerChainActivation activation = LayerChainActivation::relu;
  bool activate_last = false;

  bool has_three() const { return units.size() == 3; }
};

double activated(LayerChainActivation f, double x) {
  switch (f) {
    case LayerChainActivation::relu:
      return std::isnan(x) ? x : std::max(x, 0.0);
    case LayerChainActivation::tanh:
      return std::tanh(x);
    case LayerChainActivation::gelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.0));
    case LayerChainActivation::sigmoid:
      return 1 / (1 + std::exp(-x));
    default:
      return x / (1 + std::exp(-x));
  }
}

// Each layer's errors are those of its own sums, and what it is given times the weights' sizes (f's slope is at most
// 1.1).
std::vector<Expected> exact(const Chain& of, HostTensors in) {
  const int64_t columns = in[0].shape[in[0].shape.rank() - 1], rows = columns == 0 ? 0 : in[0].shape.numel() / columns;
  Expected y{in[0].shape, {}, {}};
  y.shape[y.shape.rank() - 1] = in[2 * of.units.size()].shape[0];
  for (int64_t row = 0; row < rows; row++) {
    std::vector<double> values(&in[0].values[row * columns], &in[0].values[row * columns] + columns), sizes;
    for (const double value : values) sizes.push_back(std::abs(value));
    for (size_t layer = 0; layer < of.units.size(); layer++) {
      const HostTensor &weight = in[2 * layer + 1], &bias = in[2 * layer + 2];
      const bool is_activated = of.activate_last || layer + 1 < of.units.size();
      std::vector<double> next, next_sizes;
      for (int64_t c = 0; c < weight.shape[0]; c++) {
        double sum = bias.values[c], size = std::abs(sum);
        for (size_t k = 0; k < values.size(); k++) {
          const double w = weight.values[c * static_cast<int64_t>(values.size()) + static_cast<int64_t>(k)];
          sum += values[k] * w;
          size += sizes[k] * std::abs(w);
        }
        next.push_back(is_activated ? activated(of.activation, sum) : sum);
        next_sizes.push_back(1.1 * size + 1e-30);
      }
      values = next;
      sizes = next_sizes;
    }
    y.values.insert(y.values.end(), values.begin(), values.end());
    y.magnitudes.insert(y.magnitudes.end(), sizes.begin(), sizes.end());
  }
  return {y};
}

void add(const Chain& of, bool is_differentiated) {
  std::vector<Input> inputs{{of.x, {.low = -1, .high = 1}}};
  int64_t from = of.x[of.x.rank() - 1];
  for (const int64_t to : of.units) {
    const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(from, 1)));
    inputs.push_back({{to, from}, {.low = -bound, .high = bound}});
    inputs.push_back({{to}, {.low = -0.3, .high = 0.3}});
    from = to;
  }
  const bool has_three = of.has_three();
  Case item{.kernel = "layer_chain",
            .name = of.name,
            .inputs = inputs,
            .call =
                [=](Tensors x) {
                  const Tensor none;
                  return std::vector{layer_chain(x[0], x[1], x[2], x[3], x[4], has_three ? x[5] : none,
                                                 has_three ? x[6] : none, of.activation, of.activate_last)};
                },
            .reference = [=](HostTensors in) { return exact(of, in); },
            .tolerance = terms(4e-6),
            .fixed_shapes = true};
  if (is_differentiated) {
    item.differentiable = [=](Vars x) {
      const Var none;
      return ad::layer_chain(x[0], x[1], x[2], x[3], x[4], has_three ? x[5] : none, has_three ? x[6] : none,
                             of.activation, of.activate_last);
    };
    item.differentiated = {0, 1, 2, 3, 4};
    if (has_three) item.differentiated.insert(item.differentiated.end(), {5, 6});
  }
  add_case(item);
  for (const char* plan : {"in_one", "each_layer"}) add_case(by_plan(item, plan));
}

}  // namespace

void add_layer_chain_cases() {
  using enum LayerChainActivation;
  add({"5x3_4_2", {5, 3}, {4, 2}, tanh}, true);
  add({"4x3_6_5_2", {4, 3}, {6, 5, 2}, sigmoid, true}, true);
  add({"gelu_2x3x4", {2, 3, 4}, {5, 3}, gelu, true}, true);
  add({"silu_7x5", {7, 5}, {3, 4, 6}, silu}, true);
  add({"relu_32x64_128_1280", {32, 64}, {128, 1280}}, false);
  add({"33x65_130_129_257", {33, 65}, {130, 129, 257}, tanh, true}, false);
  add({"1x1_1_1", {1, 1}, {1, 1}, relu, true}, false);
  add({"widest", {9, 33}, {kMostChainUnits, kMostChainUnits, 70}, relu}, false);
  add({"wider", {9, 33}, {kMostChainUnits + 1, 70}, relu}, false);
  add({"many_rows", {1500, 20}, {24, 10}, gelu}, false);
  add({"one_row", {300}, {200, 5}, relu, true}, false);
  add({"no_rows", {0, 4}, {5, 3}}, false);
}

}  // namespace ashlar::conformance

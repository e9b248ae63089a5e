// What layers with a weight and a bias have in common.
#pragma once

#include <cmath>
#include <utility>

#include "nn/init.h"
#include "nn/module.h"

namespace ashlar::nn {

/// Parameters "weight" and "bias".
template <class Derived>
class WeightAndBias : public ModuleOf<Derived> {
 public:
  const Var& weight() const { return weight_; }  ///< undefined in norms that have none
  const Var& bias() const { return bias_; }      ///< undefined without bias

 protected:
  WeightAndBias() = default;
  WeightAndBias(Var weight, Var bias) : weight_(std::move(weight)), bias_(std::move(bias)) {}

  /// Both uniform in ±1/sqrt(fan_in), which is kaiming_uniform with a = sqrt(5) (He et al. 2015), as PyTorch draws
  /// them.
  template <class Options>
  void draw(const Shape& weight, int64_t outputs, int64_t fan_in, const Options& options) {
    const float bound = 1.0F / std::sqrt(static_cast<float>(fan_in));
    const Placement placement = placement_of(options);
    weight_ = Var(initial_uniform(weight, -bound, bound, placement), true);
    if (options.bias) bias_ = Var(initial_uniform({outputs}, -bound, bound, placement), true);
  }
  /// The weight 1, the bias 0, as norms begin.
  void begin_as_identity(const Shape& shape, bool has_bias, const Placement& placement) {
    weight_ = Var(initial_full(shape, 1, placement), true);
    if (has_bias) bias_ = Var(initial_full(shape, 0, placement), true);
  }

  void members(Members& members) override {
    members.parameter("weight", weight_);
    members.parameter("bias", bias_);
  }

  Var weight_, bias_;
};

}  // namespace ashlar::nn

// Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms").
#pragma once

#include <utility>
#include <vector>

#include "nn/optim/optimizer.h"

namespace ashlar::nn {

struct LionOptions {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

/// w = w - learning_rate · (sign(beta1 · m + (1 - beta1) · gradient) + weight_decay · w)
/// m = beta2 · m + (1 - beta2) · gradient
class Lion : public Optimizer {
 public:
  /// Throws ValueError on an option outside of its range.
  explicit Lion(std::vector<Var> parameters, const LionOptions& options = {})
      : Lion(one_group(std::move(parameters), options)) {}
  explicit Lion(std::vector<ParameterGroup<LionOptions>> groups);

 protected:
  void update(const Arena& arena) override;

 private:
  std::vector<LionOptions> options_;  // of each group
};

}  // namespace ashlar::nn

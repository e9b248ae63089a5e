// Adagrad (Duchi, Hazan and Singer 2011).
#pragma once

#include <utility>
#include <vector>

#include "nn/optim/optimizer.h"

namespace ashlar::nn {

struct AdagradOptions {
  double learning_rate = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double epsilon = 1e-10;
  bool maximize = false;  ///< up the gradient instead of down
};

/// As torch.optim.Adagrad, in step t:
///   g = gradient + weight_decay · w,  s = s + g²
///   w = w - learning_rate / (1 + (t - 1) · lr_decay) · g / (sqrt(s) + epsilon)
class Adagrad : public Optimizer {
 public:
  /// Throws ValueError on an option outside of its range.
  explicit Adagrad(std::vector<Var> parameters, const AdagradOptions& options = {})
      : Adagrad(one_group(std::move(parameters), options)) {}
  explicit Adagrad(std::vector<ParameterGroup<AdagradOptions>> groups);

 protected:
  void update(const Arena& arena) override;

 private:
  std::vector<AdagradOptions> options_;  // of each group
};

}  // namespace ashlar::nn

// NAdam: Adam with Nesterov's momentum (Dozat 2016).
#pragma once

#include <utility>
#include <vector>

#include "nn/optim/optimizer.h"

namespace ashlar::nn {

struct NAdamOptions {
  double learning_rate = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;  ///< up the gradient instead of down
};

/// As torch.optim.NAdam, in step t, with m and v as Adam's and μ_t = beta1 · (1 - 0.96^(t · momentum_decay) / 2):
///   w = w - learning_rate · ((1 - μ_t) / (1 - Πμ) · g + μ_{t+1} / (1 - Πμ · μ_{t+1}) · m)
///         / (sqrt(v / (1 - beta2^t)) + epsilon),  Πμ = μ_1 · … · μ_t
class NAdam : public Optimizer {
 public:
  /// Throws ValueError on an option outside of its range.
  explicit NAdam(std::vector<Var> parameters, const NAdamOptions& options = {})
      : NAdam(one_group(std::move(parameters), options)) {}
  explicit NAdam(std::vector<ParameterGroup<NAdamOptions>> groups);

 protected:
  void update(const Arena& arena) override;

 private:
  std::vector<NAdamOptions> options_;  // of each group
};

}  // namespace ashlar::nn

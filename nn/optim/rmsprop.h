// RMSProp (Hinton 2012).
#pragma once

#include <utility>
#include <vector>

#include "nn/optim/optimizer.h"

namespace ashlar::nn {

struct RMSpropOptions {
  double learning_rate = 1e-2;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool maximize = false;  ///< up the gradient instead of down
};

/// As torch.optim.RMSprop with centered=False:
///   g = gradient + weight_decay · w,  v = alpha · v + (1 - alpha) · g²,  b = momentum · b + g / (sqrt(v) + epsilon)
///   w = w - learning_rate · b
class RMSprop : public Optimizer {
 public:
  /// Throws ValueError on an option outside of its range.
  explicit RMSprop(std::vector<Var> parameters, const RMSpropOptions& options = {})
      : RMSprop(one_group(std::move(parameters), options)) {}
  explicit RMSprop(std::vector<ParameterGroup<RMSpropOptions>> groups);

 protected:
  void update(const Arena& arena) override;

 private:
  std::vector<RMSpropOptions> options_;  // of each group
};

}  // namespace ashlar::nn

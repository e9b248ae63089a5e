// Stochastic gradient descent with momentum.
#pragma once

#include <utility>
#include <vector>

#include "nn/optim/optimizer.h"

namespace ashlar::nn {

struct SgdOptions {
  double learning_rate = 0.1;
  double momentum = 0;
  double weight_decay = 0;  ///< L2: added to the gradient as weight_decay · w
  bool nesterov = false;
  bool maximize = false;  ///< up the gradient instead of down
};

/// As torch.optim.SGD without dampening:
///   g = gradient + weight_decay · w,  v = momentum · v + g,  w = w - learning_rate · (v, or g + momentum · v for
///   Nesterov's)
class SGD : public Optimizer {
 public:
  /// Throws ValueError on a negative option.
  explicit SGD(std::vector<Var> parameters, const SgdOptions& options = {})
      : SGD(one_group(std::move(parameters), options)) {}
  explicit SGD(std::vector<ParameterGroup<SgdOptions>> groups);

 protected:
  void update(const Arena& arena) override;

 private:
  std::vector<SgdOptions> options_;  // of each group
};

}  // namespace ashlar::nn

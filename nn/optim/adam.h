// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "nn/optim/optimizer.h"

namespace ashlar::nn {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::optional<double> weight_decay = {};  ///< default: 0 for Adam, 0.01 for AdamW, as in PyTorch
  /// The largest v of all steps takes v's place (Reddi et al. 2018). A dozen kernels over the arena instead of one.
  bool amsgrad = false;
  bool maximize = false;  ///< up the gradient instead of down
};

/// As torch.optim.Adam, in step t:
///   g = gradient + weight_decay · w
///   m = beta1 · m + (1 - beta1) · g,  v = beta2 · v + (1 - beta2) · g²
///   w = w - learning_rate · (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
/// with amsgrad of the largest v of all steps in the place of v in the last line
class Adam : public Optimizer {
 public:
  /// Throws ValueError on a beta outside of [0, 1), or another negative option.
  explicit Adam(std::vector<Var> parameters, const AdamOptions& options = {})
      : Adam(one_group(std::move(parameters), options)) {}
  explicit Adam(std::vector<ParameterGroup<AdamOptions>> groups) : Adam(std::move(groups), /*decoupled=*/false) {}

 protected:
  Adam(std::vector<ParameterGroup<AdamOptions>> groups, bool decoupled);
  void update(const Arena& arena) override;
  void update_by_largest(const Arena& arena, const AdamOptions& options) const;

 private:
  std::vector<AdamOptions> options_;  // of each group
  bool decoupled_;
};

/// Adam with decoupled weight decay: instead of entering the gradient, it shrinks the weight by
/// learning_rate · weight_decay · w.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Var> parameters, const AdamOptions& options = {})
      : AdamW(one_group(std::move(parameters), options)) {}
  explicit AdamW(std::vector<ParameterGroup<AdamOptions>> groups) : Adam(std::move(groups), /*decoupled=*/true) {}
};

}  // namespace ashlar::nn

// The fully connected layer.
#pragma once

#include "nn/modules/weight_and_bias.h"
#include "runtime/forms/forms.h"

namespace ashlar::nn {

struct LinearOptions {
  bool bias = true;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// y = x · weightᵀ + bias. Parameters "weight" [out, in] and "bias" [out], both uniform in ±1/sqrt(in) at first, which
/// is kaiming_uniform with a = sqrt(5) (He et al. 2015, and torch.nn.Linear).
class Linear : public WeightAndBias<Linear> {
 public:
  /// For containers: forward takes an activation that its kernel computes in the same launch.
  static constexpr bool kTakesEpilogue = true;

  /// Throws ValueError unless both sizes are positive.
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  /// First values from `random`.
  Linear(int64_t in, int64_t out, Random& random) : Linear(in, out, {.random = &random}) {}
  /// Of parameters that there are: `Linear(embedding.weight())` shares that weight. Throws ShapeError unless the weight
  /// is [out, in] and the bias, if any, [out].
  explicit Linear(const Var& weight, const Var& bias = {});

  /// x [..., in] to [..., out]
  Var forward(const Var& x) const { return forward(x, Activation::none); }
  /// The same with an activation fused into the kernel, but for a GELU whose gradient is recorded; Sequential calls it
  /// where an activation follows.
  Var forward(const Var& x, Activation activation) const;
};

}  // namespace ashlar::nn

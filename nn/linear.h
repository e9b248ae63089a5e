// The fully connected layer.
#pragma once

#include "nn/module.h"
#include "runtime/forms/forms.h"
#include "runtime/tensor/random.h"

namespace ashlar::nn {

/// y = x · weightᵀ + bias. Parameters "weight" [out, in] and "bias" [out], f32 on the CPU at first, as in PyTorch:
/// both uniform in ±1/sqrt(in), which is kaiming_uniform with a = sqrt(5) (He et al. 2015, and torch.nn.Linear).
class Linear : public Module {
 public:
  /// Throws ValueError unless both sizes are positive.
  Linear(int64_t in, int64_t out, Random& random, bool with_bias = true);

  /// x [..., in] to [..., out]
  Var forward(const Var& x) override { return forward(x, Activation::none); }
  /// The same with an activation fused into the kernel; Sequential uses it for a Linear before a ReLU.
  Var forward(const Var& x, Activation activation) const;

  const Var& weight() const { return weight_; }
  const Var& bias() const { return bias_; }  ///< undefined without bias

 private:
  Var weight_;
  Var bias_;
};

}  // namespace ashlar::nn

// Dropout.
#pragma once

#include "nn/initial.h"
#include "nn/module.h"

namespace ashlar::nn {

/// Each element is 0 with probability p, else multiplied by 1 / (1 - p) (Srivastava et al. 2014). The numbers are those
/// that come next in the stream of `state` (philox_state()), which goes on. One kernel each way: the gradient makes the
/// mask once more instead of keeping it. Throws ValueError unless 0 ≤ p ≤ 1, DTypeError, DeviceError.
Var dropout(const Var& x, const Tensor& state, double p = 0.5);

struct DropoutOptions {
  Device device = {};
  Random* random = nullptr;  ///< seeds this module's own stream of numbers; none: the process's (manual_seed())
};

/// In training each element becomes 0 with probability p, and the others are multiplied by 1 / (1 - p) (Srivastava et
/// al. 2014, and torch.nn.Dropout); in evaluation x itself.
///
/// The numbers are Philox's, counted in a buffer "random" i64[2] on the module's device: the same on every device,
/// others at every call and at every replay of a graph. It goes into checkpoints, not into files of weights. The
/// gradient makes the mask once more instead of keeping it. clone() goes on with the same numbers.
class Dropout : public ModuleOf<Dropout> {
 public:
  /// Throws ValueError unless 0 ≤ p ≤ 1.
  explicit Dropout(double p = 0.5, const DropoutOptions& options = {});

  /// Throws DeviceError when x isn't where the module is.
  Var forward(const Var& x) const;
  std::string details() const override;

 protected:
  void members(Members& members) override { members.buffer("random", random_, Saved::with_checkpoints); }

 private:
  double p_;
  Var random_;
};

}  // namespace ashlar::nn

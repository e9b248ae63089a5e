// The rectifier with a slope by chance.
#pragma once

#include "ashlar/ad.h"
#include "nn/modules/dropout.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

/// x, where x ≤ 0 a x: in training a is drawn for each element, evenly in [lower, upper); in evaluation it is their
/// mean (Xu et al. 2015, and torch.nn.RReLU). Its numbers are kept as Dropout's are.
class RReLU : public ModuleOf<RReLU> {
 public:
  /// Throws ValueError unless lower ≤ upper.
  explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, const DropoutOptions& options = {})
      : lower_(lower), upper_(upper), random_(Var(philox_state(initial_seed(options.random), options.device))) {
    if (lower <= upper) return;
    throw ValueError("RReLU", "lower = " + std::to_string(lower) + ", upper = " + std::to_string(upper),
                     "lower of upper at most", "The defaults are 1/8 and 1/3");
  }

  /// Throws DeviceError when x isn't where the module is.
  Var forward(const Var& x) const {
    if (!training()) return ad::leaky_relu(x, (lower_ + upper_) / 2);
    if (x.device() != random_.device()) {
      throw DeviceError("RReLU", x.value().str(), "a tensor on " + random_.device().str(), "Move the module with to()");
    }
    return ad::rrelu(x, random_.value(), lower_, upper_);
  }

 protected:
  void members(Members& members) override { members.buffer("random", random_, Saved::with_checkpoints); }

 private:
  double lower_, upper_;
  Var random_;
};

}  // namespace ashlar::nn

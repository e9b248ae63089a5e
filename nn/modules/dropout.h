// Dropout.
#pragma once

#include <string>

#include "ashlar/ad/random.h"
#include "nn/init.h"
#include "nn/module.h"

namespace ashlar::nn {

/// dropout(x, state, p = 0.5): each element is 0 with probability p, else multiplied by 1 / (1 - p) (Srivastava et al.
/// 2014), by the numbers that come next in the stream of `state` (philox_state()), which goes on.
using ad::dropout;

struct DropoutOptions {
  Device device = {};
  Random* random = nullptr;  ///< seeds this module's own stream of numbers; none: the process's (manual_seed())
};

/// In training elements become 0 with probability p, and the others are multiplied by 1 / (1 - p); in evaluation x
/// itself. kOfChannels: all elements of a channel do, of each image by itself.
///
/// The numbers are Philox's, counted in a buffer "random" i64[2] on the module's device: the same on every device,
/// others at every call and at every replay of a graph. It goes into checkpoints, not into files of weights. The
/// gradient makes the mask once more instead of keeping it. clone() goes on with the same numbers.
///
/// kKeepsNormal: elements become SELU's least value -1.758… instead, and then all are scaled and shifted, so that a
/// mean of 0 and a variance of 1 stay as they are (Klambauer et al. 2017); with p = 1 all are 0.
template <class Derived, bool kOfChannels, bool kKeepsNormal = false>
class DropoutModule : public ModuleOf<Derived> {
 public:
  /// Throws ValueError unless 0 ≤ p ≤ 1.
  explicit DropoutModule(double p = 0.5, const DropoutOptions& options = {});

  /// Throws DeviceError when x isn't where the module is, of channels ShapeError unless x is [n, c, …].
  Var forward(const Var& x) const;
  double p() const { return p_; }
  /// Where the module's next numbers begin, of which so many blocks of four are the caller's.
  Tensor take(int64_t blocks) const;
  std::string details() const override;

 protected:
  void members(Members& members) override { members.buffer("random", random_, Saved::with_checkpoints); }

 private:
  double p_;
  Var random_;
};

/// Of each element (Srivastava et al. 2014, and torch.nn.Dropout).
class Dropout : public DropoutModule<Dropout, false> {
  using DropoutModule::DropoutModule;
};
/// Of channels of sequences and of images (Tompson et al. 2015, and torch.nn.Dropout2d).
class Dropout1d : public DropoutModule<Dropout1d, true> {
  using DropoutModule::DropoutModule;
};
class Dropout2d : public DropoutModule<Dropout2d, true> {
  using DropoutModule::DropoutModule;
};
class Dropout3d : public DropoutModule<Dropout3d, true> {
  using DropoutModule::DropoutModule;
};
/// For networks with SELU, as torch.nn.AlphaDropout.
class AlphaDropout : public DropoutModule<AlphaDropout, false, true> {
  using DropoutModule::DropoutModule;
};
class FeatureAlphaDropout : public DropoutModule<FeatureAlphaDropout, true, true> {
  using DropoutModule::DropoutModule;
};

}  // namespace ashlar::nn

#include "nn/modules/dropout.h"

#include <sstream>

#include "ashlar/ad/random.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Var dropout(const Var& x, const Tensor& state, double p) {
  check_philox_state("dropout", state);
  const Tensor begin = state.clone();  // where this call's numbers begin, for the gradient
  philox_advance(state, (x.numel() + 3) / 4);
  return ad::dropout_at(x, begin, p);
}

Dropout::Dropout(double p, const DropoutOptions& options) : p_(p) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError("Dropout", "p = " + std::to_string(p), "a probability from 0 to 1",
                     "p is the part of elements that become 0");
  }
  random_ = Var(philox_state(initial_seed(options.random), options.device));
}

Var Dropout::forward(const Var& x) const {
  if (!training() || p_ == 0) return x;
  if (x.device() != random_.device()) {
    throw DeviceError("Dropout", x.value().str(), "a tensor on " + random_.device().str(), "Move the module with to()");
  }
  return dropout(x, random_.value(), p_);
}

std::string Dropout::details() const {
  std::ostringstream text;
  text << "p = " << p_;
  return text.str();
}

}  // namespace ashlar::nn

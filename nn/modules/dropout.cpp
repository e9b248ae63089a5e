#include "nn/modules/dropout.h"

#include <sstream>

#include "ashlar/ad.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

namespace {

/// Where the stream of `state` stands, which goes on by so many blocks: gradients begin there once more.
Tensor taken(const Tensor& state, int64_t blocks) {
  const Tensor begin = state.clone();
  philox_advance(state, blocks);
  return begin;
}

}  // namespace

template <class Derived, bool kOfChannels, bool kKeepsNormal>
DropoutModule<Derived, kOfChannels, kKeepsNormal>::DropoutModule(double p, const DropoutOptions& options) : p_(p) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError(class_name(typeid(Derived)), "p = " + std::to_string(p), "a probability from 0 to 1",
                     "p is the part of elements that become 0");
  }
  random_ = Var(philox_state(initial_seed(options.random), options.device));
}

template <class Derived, bool kOfChannels, bool kKeepsNormal>
Var DropoutModule<Derived, kOfChannels, kKeepsNormal>::forward(const Var& x) const {
  if (!this->training() || p_ == 0) return x;
  if (x.device() != random_.device()) {
    throw DeviceError(class_name(typeid(Derived)), x.value().str(), "a tensor on " + random_.device().str(),
                      "Move the module with to()");
  }
  constexpr auto kOperator = kKeepsNormal ? (kOfChannels ? ad::feature_alpha_dropout : ad::alpha_dropout)
                                          : (kOfChannels ? ad::feature_dropout : ad::dropout);
  return kOperator(x, random_.value(), p_);
}

template <class Derived, bool kOfChannels, bool kKeepsNormal>
Tensor DropoutModule<Derived, kOfChannels, kKeepsNormal>::take(int64_t blocks) const {
  return taken(random_.value(), blocks);
}

template <class Derived, bool kOfChannels, bool kKeepsNormal>
std::string DropoutModule<Derived, kOfChannels, kKeepsNormal>::details() const {
  std::ostringstream text;
  text << "p = " << p_;
  return text.str();
}

template class DropoutModule<Dropout, false>;
template class DropoutModule<Dropout1d, true>;
template class DropoutModule<Dropout2d, true>;
template class DropoutModule<Dropout3d, true>;
template class DropoutModule<AlphaDropout, false, true>;
template class DropoutModule<FeatureAlphaDropout, true, true>;

}  // namespace ashlar::nn

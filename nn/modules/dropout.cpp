#include "nn/modules/dropout.h"

#include <cmath>
#include <sstream>

#include "ashlar/ad.h"
#include "ashlar/var_arithmetic.h"
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

Var dropout(const Var& x, const Tensor& state, double p) {
  check_philox_state("dropout", state);
  return ad::dropout_at(x, taken(state, (x.numel() + 3) / 4), p);
}

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
  if constexpr (!kOfChannels && !kKeepsNormal) return dropout(x, random_.value(), p_);
  Shape shape = x.shape();
  if constexpr (kOfChannels) {
    if (x.rank() < 2) {
      throw ShapeError(class_name(typeid(Derived)), x.value().str(), "[batch, channels, sizes…]",
                       "Put a batch of one in front by unsqueeze(0)");
    }
    for (int axis = 2; axis < x.rank(); axis++) shape[axis] = 1;
  }
  const Var factor = dropout(Tensor::ones(shape, x.dtype(), x.device()), random_.value(), p_);
  if constexpr (!kKeepsNormal) return ad::mul(x, factor);
  if (p_ == 1) return ad::mul(x, 0);
  constexpr double kLeast = -1.7580993408473766;  // of SELU: -scale · alpha
  const double scale = 1 / std::sqrt((1 - p_) * (1 + p_ * kLeast * kLeast)), shift = -scale * kLeast * p_;
  return ad::where(factor.value() > 0, ad::affine(x, scale, shift), scale * kLeast + shift);
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

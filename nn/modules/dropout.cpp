#include "nn/modules/dropout.h"

#include <sstream>

#include "ashlar/ad/binary.h"
#include "ashlar/ad/random.h"
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

template <class Derived, bool kOfChannels>
DropoutModule<Derived, kOfChannels>::DropoutModule(double p, const DropoutOptions& options) : p_(p) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError(class_name(typeid(Derived)), "p = " + std::to_string(p), "a probability from 0 to 1",
                     "p is the part of elements that become 0");
  }
  random_ = Var(philox_state(initial_seed(options.random), options.device));
}

template <class Derived, bool kOfChannels>
Var DropoutModule<Derived, kOfChannels>::forward(const Var& x) const {
  if (!this->training() || p_ == 0) return x;
  if (x.device() != random_.device()) {
    throw DeviceError(class_name(typeid(Derived)), x.value().str(), "a tensor on " + random_.device().str(),
                      "Move the module with to()");
  }
  if constexpr (!kOfChannels) {
    return dropout(x, random_.value(), p_);
  } else {
    if (x.rank() < 2) {
      throw ShapeError(class_name(typeid(Derived)), x.value().str(), "[batch, channels, sizes…]",
                       "Put a batch of one in front by unsqueeze(0)");
    }
    Shape shape = Shape::filled(x.rank(), 1);
    shape[0] = x.size(0), shape[1] = x.size(1);
    return ad::mul(x, dropout(Tensor::ones(shape, x.dtype(), x.device()), random_.value(), p_));
  }
}

template <class Derived, bool kOfChannels>
Tensor DropoutModule<Derived, kOfChannels>::take(int64_t blocks) const {
  return taken(random_.value(), blocks);
}

template <class Derived, bool kOfChannels>
std::string DropoutModule<Derived, kOfChannels>::details() const {
  std::ostringstream text;
  text << "p = " << p_;
  return text.str();
}

template class DropoutModule<Dropout, false>;
template class DropoutModule<Dropout1d, true>;
template class DropoutModule<Dropout2d, true>;

}  // namespace ashlar::nn

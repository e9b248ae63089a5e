#include "nn/optim/precision.h"

#include "autograd/backward.h"

namespace ashlar::nn {

Precision::Precision(Optimizer& optimizer, std::optional<DType> amp) : optimizer_(optimizer) {
  if (amp) mixed_.emplace(optimizer, *amp);
}

Tensor Precision::backward(const std::function<Var()>& loss) {
  if (mixed_) return mixed_->backward(loss).value().reshape({});
  const Var value = loss();
  ashlar::backward(value);
  return value.value().to(DType::f32).reshape({});
}

void Precision::step() { mixed_ ? mixed_->step() : optimizer_.step(); }

MixedPrecision::Autocast Precision::autocast() { return mixed_ ? mixed_->autocast() : MixedPrecision::Autocast(); }

void Precision::load_state_dict(const NamedTensors& state) const {
  if (mixed_) mixed_->load_state_dict(state);
}

}  // namespace ashlar::nn

// What every trainer does with a loss: backward and update, in the weights' own dtype or in 16 bits.
#pragma once

#include <functional>
#include <optional>

#include "nn/optim/mixed_precision.h"
#include "nn/optim/optimizer.h"

namespace ashlar::nn {

/// Without a dtype, ashlar::backward() and the optimiser's step; with f16 or bf16 those of MixedPrecision.
class Precision {
 public:
  /// Throws as MixedPrecision. The optimiser must outlive it.
  Precision(Optimizer& optimizer, std::optional<DType> amp);

  /// What inputs are converted to: the 16-bit dtype, or f32.
  DType dtype() const { return mixed_ ? mixed_->dtype() : DType::f32; }
  /// Floating-point inputs of the model as it computes; others, and all without a dtype, as they are.
  Tensor input(const Tensor& x) const { return mixed_ && is_floating(x.dtype()) ? x.to(dtype()) : x; }

  /// Adds the gradients of what `loss` computes (one element). Returns its value, f32, rank 0.
  Tensor backward(const std::function<Var()>& loss);
  void step();

  /// The optimiser's parameters are their 16-bit copies while this lives: to compute through a network that isn't
  /// trained at the moment.
  MixedPrecision::Autocast autocast();

  /// For checkpoints; empty where there is no scale to keep.
  NamedTensors state_dict() const { return mixed_ ? mixed_->state_dict() : NamedTensors(); }
  /// Throws as MixedPrecision's.
  void load_state_dict(const NamedTensors& state) const;

 private:
  Optimizer& optimizer_;
  std::optional<MixedPrecision> mixed_;
};

}  // namespace ashlar::nn

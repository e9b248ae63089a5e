// Recurrent networks that roll a training's state ahead.
#pragma once

#include <cstdint>
#include <memory>

#include "nn/hybrid/training_state.h"
#include "nn/init.h"
#include "nn/module.h"
#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"

namespace ashlar::nn {

/// relu(states weightᵀ + bias): states [batch, features], weight [encoded, features], bias [encoded].
Var encode_state(const Var& states, const Var& weight, const Var& bias);
/// The states of gated recurrent units that run on by themselves, [horizon, members, batch, hidden], from `first`
/// [members, batch, hidden]; weight_hh [members, hidden, 3 · hidden], biases [members, 3 · hidden]. One launch a step.
/// Throws ShapeError.
Var roll_out(const Var& first, const Var& weight_hh, const Var& bias_ih, const Var& bias_hh, int64_t horizon);
/// What linear heads see in them, [horizon, members, batch]: weight [members, hidden], bias [members].
Var path_of(const Var& states, const Var& weight, const Var& bias);

struct LossEnsembleOptions {
  int64_t features = kStateFeatures;
  int64_t encoded = 128;
  int64_t members = 5;
  int64_t hidden = 256;
  double dropout = 0;       ///< part of the units' outputs that a head doesn't see, in training; in [0, 1)
  bool layer_norm = false;  ///< of a member's outputs, before dropout and head
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// A state-space model of which there are several: one encoder, then for each member m gated recurrent units (Cho et
/// al. 2014) that run on by themselves, without an input, and a linear head on each of their states.
///
///   e = relu(encoder state)
///   h[m,0] = tanh(start[m] e),  h[m,t] = GRU_m(h[m,t-1])
///   path[t,m] = head[m] · h[m,t]
///
/// With layer_norm it is head[m] · (h[m,t] - mean) / sqrt(variance + 1e-5), both over the member's hidden units,
/// without a scale and shift of its own: the head has them. Dropout is of what the head sees; states run on whole.
///
/// All members of a step are one launch. Parameters: "encoder.weight" [encoded, features] and bias, "start.weight"
/// [members · hidden, encoded] and bias, "weight_hh" [members, hidden, 3 · hidden] (transposed to the modules' GRU, as
/// its steps read it), "bias_ih" and "bias_hh" [members, 3 · hidden], "head_weight" [members, hidden], "head_bias"
/// [members]; heads are 0 at first: the path stays where it is. With dropout its numbers, "dropout.random", go into
/// checkpoints.
class LossEnsemble : public ModuleOf<LossEnsemble> {
 public:
  /// Throws ValueError unless all sizes are positive and dropout is in [0, 1).
  explicit LossEnsemble(const LossEnsembleOptions& options = {});

  /// states [batch, features] to paths [horizon, members, batch], computed in the states' dtype: weights may be f16 or
  /// bf16 (to(DType::f16)) beside states in f32. Throws ShapeError, DTypeError.
  Var forward(const Var& states, int64_t horizon) const;

  int64_t size() const { return members_; }

 protected:
  void members(Members& members) override;

 private:
  int64_t members_, hidden_;
  bool layer_norm_;
  Linear encoder_, start_;
  Var weight_hh_, bias_ih_, bias_hh_, head_weight_, head_bias_;
  std::shared_ptr<Dropout> dropout_;  // none where it is 0
};

}  // namespace ashlar::nn

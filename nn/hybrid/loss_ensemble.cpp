#include "nn/hybrid/loss_ensemble.h"

#include <cmath>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/var_arithmetic.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

const LossEnsembleOptions& checked(const LossEnsembleOptions& options) {
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw ValueError("LossEnsemble", "dropout = " + std::to_string(options.dropout), "a part, in [0, 1)",
                     "The default is 0");
  }
  if (options.features > 0 && options.encoded > 0 && options.members > 0 && options.hidden > 0) return options;
  throw ValueError("LossEnsemble",
                   std::to_string(options.features) + " features, " + std::to_string(options.encoded) + " encoded, " +
                       std::to_string(options.members) + " members, " + std::to_string(options.hidden) + " hidden",
                   "positive numbers of all", "Start with the defaults");
}

LinearOptions linear_options(const LossEnsembleOptions& options) {
  return {.device = options.device, .dtype = options.dtype, .random = options.random};
}

}  // namespace

Var encode_state(const Var& states, const Var& weight, const Var& bias) {
  return ad::matmul(states, weight, {.transpose_b = true, .activation = Activation::relu}, bias);
}

Var roll_out(const Var& first, const Var& weight_hh, const Var& bias_ih, const Var& bias_hh, int64_t horizon) {
  const int64_t members = first.size(0), batch = first.size(1), gates = bias_ih.size(-1);
  // The same for all steps: a view, of which there is one step in memory.
  const Var inputs = bias_ih.reshape({1, members, 1, gates}).broadcast_to({horizon, members, batch, gates});
  return ad::gru_sequence(inputs, first, weight_hh.transpose(1, 2), bias_hh);
}

Var path_of(const Var& states, const Var& weight, const Var& bias) {
  const int64_t horizon = states.size(0), members = states.size(1), batch = states.size(2), hidden = states.size(3);
  // A head for each member and step, so that the products are one batch.
  const Var heads = weight.broadcast_to({horizon, members, hidden}).reshape({horizon * members, hidden, 1});
  const Var path = ad::matmul(states.reshape({horizon * members, batch, hidden}), heads);
  return ad::add(path.reshape({horizon, members, batch}), bias.reshape({members, 1}));
}

LossEnsemble::LossEnsemble(const LossEnsembleOptions& options)
    : members_(checked(options).members),
      hidden_(options.hidden),
      layer_norm_(options.layer_norm),
      encoder_(options.features, options.encoded, linear_options(options)),
      start_(options.encoded, options.members * options.hidden, linear_options(options)) {
  const float bound = 1.0F / std::sqrt(static_cast<float>(hidden_));
  const auto parameter = [&](const Shape& shape) {
    return Var(initial_uniform(shape, -bound, bound, placement_of(options)), true);
  };
  weight_hh_ = parameter({members_, hidden_, 3 * hidden_});
  bias_ih_ = parameter({members_, 3 * hidden_});
  bias_hh_ = parameter({members_, 3 * hidden_});
  const auto zeros = [&](const Shape& shape) { return Var(initial_full(shape, 0, placement_of(options)), true); };
  head_weight_ = zeros({members_, hidden_});
  head_bias_ = zeros({members_});
  if (options.dropout > 0) {  // the last that draws, so that first values are the same without
    dropout_ =
        std::make_shared<Dropout>(options.dropout, DropoutOptions{.device = options.device, .random = options.random});
  }
}

void LossEnsemble::members(Members& members) {
  members.child("encoder", encoder_);
  members.child("start", start_);
  members.parameter("weight_hh", weight_hh_);
  members.parameter("bias_ih", bias_ih_);
  members.parameter("bias_hh", bias_hh_);
  members.parameter("head_weight", head_weight_);
  members.parameter("head_bias", head_bias_);
  members.child("dropout", dropout_);
}

Var LossEnsemble::forward(const Var& states, int64_t horizon) const {
  // Weights of 16 bits lie in memory alone: states are computed in their own dtype.
  const auto wide = [&](const Var& weight) { return weight.to(states.dtype()); };
  const Var encoded = encode_state(states, wide(encoder_.weight()), wide(encoder_.bias()));
  const Var start = ad::matmul(encoded, wide(start_.weight()), {.transpose_b = true}, wide(start_.bias()));
  const Var first = ad::tanh(start).reshape({states.size(0), members_, hidden_}).permute({1, 0, 2});
  Var units = roll_out(first, wide(weight_hh_), wide(bias_ih_), wide(bias_hh_), horizon);
  if (layer_norm_) units = ad::layer_norm(units).y;
  if (dropout_ != nullptr) units = dropout_->forward(units);
  return path_of(units, wide(head_weight_), wide(head_bias_));
}

}  // namespace ashlar::nn

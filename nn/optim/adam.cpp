#include "nn/optim/adam.h"

#include <string>

#include "ashlar/ops.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
Adam::Adam(std::vector<Var> parameters, const AdamOptions& options, double weight_decay, bool decoupled)
    : Optimizer(std::move(parameters), options.learning_rate, /*state_count=*/2),
      options_(options),
      weight_decay_(weight_decay),
      decoupled_(decoupled) {
  const auto is_beta = [](double beta) { return beta >= 0 && beta < 1; };
  if (is_beta(options.beta1) && is_beta(options.beta2) && options.epsilon >= 0 && weight_decay >= 0) return;
  throw ValueError(decoupled ? "AdamW" : "Adam",
                   "betas " + std::to_string(options.beta1) + " and " + std::to_string(options.beta2) + ", epsilon " +
                       std::to_string(options.epsilon) + ", weight decay " + std::to_string(weight_decay),
                   "betas in [0, 1) and the others 0 or more", "Start with the defaults");
}

void Adam::update(const Group& group) {
  adam_step(group.arena.values(), group.arena.gradients(), group.states[0], group.states[1], group.learning_rate,
            group.step, 1 - options_.beta1, 1 - options_.beta2, options_.epsilon, weight_decay_,
            decoupled_ ? AdamStepDecay::decoupled : AdamStepDecay::coupled);
}

}  // namespace ashlar::nn

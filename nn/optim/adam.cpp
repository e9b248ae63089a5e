#include "nn/optim/adam.h"

#include <string>

#include "ashlar/ops.h"
#include "nn/optim/options.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Adam::Adam(std::vector<ParameterGroup<AdamOptions>> groups, bool decoupled) try
    : Optimizer(groups_of(groups, {{"exp_avg"}, {"exp_avg_sq"}})), options_(options_of(groups)), decoupled_(decoupled) {
  for (AdamOptions& options : options_) {
    if (!options.weight_decay) options.weight_decay = decoupled ? 0.01 : 0.0;
    if (is_part(options.beta1) && is_part(options.beta2) && options.epsilon >= 0 && *options.weight_decay >= 0)
      continue;
    throw ValueError(decoupled ? "AdamW" : "Adam",
                     "betas " + std::to_string(options.beta1) + " and " + std::to_string(options.beta2) + ", epsilon " +
                         std::to_string(options.epsilon) + ", weight decay " + std::to_string(*options.weight_decay),
                     "betas in [0, 1) and the others 0 or more", "Start with the defaults");
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Adam");
}

void Adam::update(const Arena& arena) {
  const AdamOptions& options = options_[arena.group];
  adam_step(arena.parameters.values(), arena.parameters.gradients(), arena.moments[0], arena.moments[1],
            arena.learning_rate, arena.gradient_scale, arena.step(), 1 - options.beta1, 1 - options.beta2,
            options.epsilon, *options.weight_decay, largest_gradient(),
            decoupled_ ? AdamStepDecay::decoupled : AdamStepDecay::coupled);
}

}  // namespace ashlar::nn

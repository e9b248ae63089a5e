#include "nn/optim/lion.h"

#include <string>

#include "ashlar/ops.h"
#include "nn/optim/options.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Lion::Lion(std::vector<ParameterGroup<LionOptions>> groups) try
    : Optimizer(groups_of(groups, {{"exp_avg"}})), options_(options_of(groups)) {
  for (const LionOptions& options : options_) {
    if (is_part(options.beta1) && is_part(options.beta2) && options.weight_decay >= 0) continue;
    throw ValueError("Lion",
                     "betas " + std::to_string(options.beta1) + " and " + std::to_string(options.beta2) +
                         ", weight decay " + std::to_string(options.weight_decay),
                     "betas in [0, 1) and a decay of 0 or more", "Start with the defaults");
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Lion");
}

void Lion::update(const Arena& arena) {
  const LionOptions& options = options_[arena.group];
  lion_step(arena.parameters.values(), arena.parameters.gradients(), arena.moments[0], arena.learning_rate,
            arena.gradient_scale, 1 - options.beta1, 1 - options.beta2, options.weight_decay, largest_gradient());
}

}  // namespace ashlar::nn

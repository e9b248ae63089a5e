#include "nn/optim/nadam.h"

#include <cmath>
#include <string>

#include "ashlar/ops.h"
#include "nn/optim/options.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

NAdam::NAdam(std::vector<ParameterGroup<NAdamOptions>> groups) try
    : Optimizer(groups_of(groups, {{"exp_avg"}, {"exp_avg_sq"}}, {{"mu_product", 1}})), options_(options_of(groups)) {
  for (const NAdamOptions& options : options_) {
    if (is_part(options.beta1) && is_part(options.beta2) && options.epsilon >= 0 && options.weight_decay >= 0 &&
        options.momentum_decay >= 0)
      continue;
    throw ValueError("NAdam",
                     "betas " + std::to_string(options.beta1) + " and " + std::to_string(options.beta2) + ", epsilon " +
                         std::to_string(options.epsilon) + ", weight decay " + std::to_string(options.weight_decay) +
                         ", momentum decay " + std::to_string(options.momentum_decay),
                     "betas in [0, 1) and the others 0 or more", "Start with the defaults");
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("NAdam");
}

void NAdam::update(const Arena& arena) {
  const NAdamOptions& options = options_[arena.group];
  // Πμ, on the device as the step count is
  const Tensor& product = arena.numbers[1];
  const Tensor power = exp(affine(arena.step(), options.momentum_decay * std::log(0.96), 0.0));
  product.copy_(mul(product, affine(power, -0.5 * options.beta1, options.beta1)));
  nadam_step(arena.parameters.values(), arena.parameters.gradients(), arena.moments[0], arena.moments[1],
             arena.learning_rate, arena.gradient_scale, arena.step(), product, 1 - options.beta1, 1 - options.beta2,
             options.epsilon, options.weight_decay, options.momentum_decay, largest_gradient(),
             options.decoupled_weight_decay ? NadamStepDecay::decoupled : NadamStepDecay::coupled);
}

}  // namespace ashlar::nn

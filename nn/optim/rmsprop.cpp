#include "nn/optim/rmsprop.h"

#include <string>

#include "ashlar/ops.h"
#include "nn/optim/options.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

RMSprop::RMSprop(std::vector<ParameterGroup<RMSpropOptions>> groups) try
    : Optimizer(groups_of(groups, {{"square_avg"}, {"momentum_buffer"}})), options_(options_of(groups)) {
  for (const RMSpropOptions& options : options_) {
    if (is_part(options.alpha) && options.epsilon >= 0 && options.weight_decay >= 0 && options.momentum >= 0) continue;
    throw ValueError("RMSprop",
                     "alpha " + std::to_string(options.alpha) + ", epsilon " + std::to_string(options.epsilon) +
                         ", weight decay " + std::to_string(options.weight_decay) + ", momentum " +
                         std::to_string(options.momentum),
                     "alpha in [0, 1) and the others 0 or more", "Start with the defaults");
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("RMSprop");
}

void RMSprop::update(const Arena& arena) {
  const RMSpropOptions& options = options_[arena.group];
  rmsprop_step(arena.parameters.values(), arena.parameters.gradients(), arena.moments[0], arena.moments[1],
               arena.learning_rate, arena.gradient_scale, 1 - options.alpha, options.epsilon, options.momentum,
               options.weight_decay, largest_gradient());
}

}  // namespace ashlar::nn

#include "nn/optim/sgd.h"

#include <string>

#include "ashlar/ops.h"
#include "nn/optim/options.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

SGD::SGD(std::vector<ParameterGroup<SgdOptions>> groups) try
    : Optimizer(groups_of(groups, {{"momentum_buffer"}})), options_(options_of(groups)) {
  for (const SgdOptions& options : options_) {
    if (options.momentum >= 0 && options.weight_decay >= 0) continue;
    throw ValueError(
        "SGD",
        "momentum " + std::to_string(options.momentum) + ", weight decay " + std::to_string(options.weight_decay),
        "numbers of 0 or more", "Start with {.momentum = 0.9}");
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("SGD");
}

void SGD::update(const Arena& arena) {
  const SgdOptions& options = options_[arena.group];
  sgd_step(arena.parameters.values(), arena.parameters.gradients(), arena.moments[0], arena.learning_rate,
           arena.gradient_scale, options.momentum, options.weight_decay, largest_gradient(),
           options.nesterov ? SgdStepKind::nesterov : SgdStepKind::classic);
}

}  // namespace ashlar::nn

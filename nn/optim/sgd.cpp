#include "nn/optim/sgd.h"

#include <string>
#include <utility>

#include "ashlar/ops.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

SGD::SGD(std::vector<Var> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), options.learning_rate, /*state_count=*/1), options_(options) {
  if (!(options.momentum >= 0) || !(options.weight_decay >= 0)) {
    throw ValueError(
        "SGD",
        "momentum " + std::to_string(options.momentum) + ", weight decay " + std::to_string(options.weight_decay),
        "numbers of 0 or more", "Start with {.momentum = 0.9}");
  }
}

void SGD::update(const Group& group) {
  sgd_step(group.arena.values(), group.arena.gradients(), group.states[0], group.learning_rate, options_.momentum,
           options_.weight_decay, options_.nesterov ? SgdStepKind::nesterov : SgdStepKind::classic);
}

}  // namespace ashlar::nn

#include "nn/optim/sgd.h"

#include <string>
#include <utility>

#include "ashlar/ops.h"
#include "runtime/error.h"

namespace ashlar::nn {

SGD::SGD(std::vector<Var> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), options.learning_rate, /*state_count=*/1,
                {options.momentum, options.weight_decay}) {
  if (!(options.momentum >= 0) || !(options.weight_decay >= 0)) {
    throw ValueError("SGD",
                     "momentum " + std::to_string(options.momentum) + ", weight decay " +
                         std::to_string(options.weight_decay),
                     "numbers of 0 or more", "Start with {.momentum = 0.9}");
  }
}

void SGD::update(const Group& group) {
  sgd_step(group.arena.values(), group.states[0], group.arena.gradients(), group.learning_rate, group.constants[0],
           group.constants[1]);
}

}  // namespace ashlar::nn

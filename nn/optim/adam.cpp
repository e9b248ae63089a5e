#include "nn/optim/adam.h"

#include <string>

#include "ashlar/ops.h"
#include "runtime/error.h"

namespace ashlar::nn {
namespace {

// Both kinds of decay are arguments of the kernel; the one that isn't used is 0.
std::vector<double> constants_of(const AdamOptions& options, double weight_decay, bool decoupled) {
  return {options.beta1, options.beta2, options.epsilon, decoupled ? 0.0 : weight_decay, decoupled ? weight_decay : 0.0};
}

}  // namespace

Adam::Adam(std::vector<Var> parameters, const AdamOptions& options, double weight_decay, bool decoupled)
    : Optimizer(std::move(parameters), options.learning_rate, /*state_count=*/2,
                constants_of(options, weight_decay, decoupled)) {
  const auto is_beta = [](double beta) { return beta >= 0 && beta < 1; };
  if (is_beta(options.beta1) && is_beta(options.beta2) && options.epsilon >= 0 && weight_decay >= 0) return;
  throw ValueError(decoupled ? "AdamW" : "Adam",
                   "betas " + std::to_string(options.beta1) + " and " + std::to_string(options.beta2) + ", epsilon " +
                       std::to_string(options.epsilon) + ", weight decay " + std::to_string(weight_decay),
                   "betas in [0, 1) and the others 0 or more", "Start with the defaults");
}

void Adam::update(const Group& group) {
  const std::vector<Tensor>& c = group.constants;
  adam_step(group.arena.values(), group.states[0], group.states[1], group.arena.gradients(), group.learning_rate,
            group.step, c[0], c[1], c[2], c[3], c[4]);
}

}  // namespace ashlar::nn

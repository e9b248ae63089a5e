#include "nn/optim/adagrad.h"

#include <string>

#include "ashlar/ops.h"
#include "nn/optim/options.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Adagrad::Adagrad(std::vector<ParameterGroup<AdagradOptions>> groups) try
    : Optimizer([&] {
        std::vector<Group> all;
        for (const ParameterGroup<AdagradOptions>& group : groups) {
          all.push_back({group.parameters,
                         group.options.learning_rate,
                         {{"sum", group.options.initial_accumulator_value}},
                         {},
                         group.options.maximize});
        }
        return all;
      }()),
      options_(options_of(groups)) {
  for (const AdagradOptions& options : options_) {
    if (options.lr_decay >= 0 && options.epsilon >= 0 && options.weight_decay >= 0 &&
        options.initial_accumulator_value >= 0)
      continue;
    throw ValueError("Adagrad",
                     "lr_decay " + std::to_string(options.lr_decay) + ", epsilon " + std::to_string(options.epsilon) +
                         ", weight decay " + std::to_string(options.weight_decay) + ", first sum " +
                         std::to_string(options.initial_accumulator_value),
                     "numbers of 0 or more", "Start with the defaults");
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Adagrad");
}

void Adagrad::update(const Arena& arena) {
  const AdagradOptions& options = options_[arena.group];
  adagrad_step(arena.parameters.values(), arena.parameters.gradients(), arena.moments[0], arena.learning_rate,
               arena.gradient_scale, arena.step(), options.lr_decay, options.epsilon, options.weight_decay,
               largest_gradient());
}

}  // namespace ashlar::nn

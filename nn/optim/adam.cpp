#include "nn/optim/adam.h"

#include <cmath>
#include <string>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "nn/optim/options.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Adam::Adam(std::vector<ParameterGroup<AdamOptions>> groups, bool decoupled) try
    : Optimizer([&] {
        std::vector<Group> all = groups_of(groups, {{"exp_avg"}, {"exp_avg_sq"}});
        for (size_t i = 0; i < all.size(); i++) {
          if (groups[i].options.amsgrad) all[i].moments.push_back({"max_exp_avg_sq"});
        }
        return all;
      }()),
      options_(options_of(groups)),
      decoupled_(decoupled) {
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
  if (options.amsgrad) return update_by_largest(arena, options);
  adam_step(arena.parameters.values(), arena.parameters.gradients(), arena.moments[0], arena.moments[1],
            arena.learning_rate, arena.gradient_scale, arena.step(), 1 - options.beta1, 1 - options.beta2,
            options.epsilon, *options.weight_decay, largest_gradient(),
            decoupled_ ? AdamStepDecay::decoupled : AdamStepDecay::coupled);
}

void Adam::update_by_largest(const Arena& arena, const AdamOptions& options) const {
  const Tensor &values = arena.parameters.values(), &m = arena.moments[0], &v = arena.moments[1],
               &largest = arena.moments[2];
  const double decay = *options.weight_decay, limit = largest_gradient();
  const Tensor before = values.to(DType::f32);
  Tensor g = mul(arena.parameters.gradients().to(DType::f32), arena.gradient_scale);
  if (std::isfinite(limit)) g = clamp(g, -limit, limit);
  if (!decoupled_ && decay != 0) g = add(g, affine(before, decay, 0.0));
  m.copy_(add(m, affine(sub(g, m), 1 - options.beta1, 0.0)));
  v.copy_(add(v, affine(sub(square(g), v), 1 - options.beta2, 0.0)));
  largest.copy_(maximum(largest, v));
  // 1 - beta^t = -expm1(t ln beta)
  const auto correction = [&](double beta) { return neg(expm1(mul(arena.step(), std::log(beta)))); };
  const Tensor size = affine(sqrt(div(largest, correction(options.beta2))), 1.0, options.epsilon);
  const Tensor step = mul(div(m, size), div(arena.learning_rate, correction(options.beta1)));
  const Tensor kept = decoupled_ ? mul(before, affine(arena.learning_rate, -decay, 1.0)) : before;
  values.copy_(sub(kept, step).to(values.dtype()));
}

}  // namespace ashlar::nn

#include "nn/optim/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/support/error.h"

namespace ashlar::nn {

Scheduler::Scheduler(Optimizer& optimizer, Schedule schedule) : optimizer_(optimizer), schedule_(std::move(schedule)) {
  for (size_t group = 0; group < optimizer.group_count(); group++) {
    base_rates_.push_back(optimizer.learning_rate(group));
  }
  go_to(0);
}

void Scheduler::go_to(int64_t steps) {
  if (steps < 0) throw ValueError("Scheduler", std::to_string(steps) + " steps", "0 or more", "Count from 0");
  for (size_t group = 0; group < base_rates_.size(); group++) {
    optimizer_.set_learning_rate(schedule_(base_rates_[group], steps), group);
  }
  steps_ = steps;
}

void Scheduler::restore(int64_t steps, std::vector<double> base_rates) {
  if (base_rates.size() != base_rates_.size()) {
    throw ValueError("Scheduler", std::to_string(base_rates.size()) + " base rates",
                     std::to_string(base_rates_.size()) + ", one for each parameter group",
                     "Restore what was saved with the same groups");
  }
  base_rates_ = std::move(base_rates);
  go_to(steps);
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer), options_(options) {
  if (!(options.factor >= 0 && options.factor < 1) || options.patience < 0 || options.cooldown < 0) {
    throw ValueError("ReduceLROnPlateau",
                     "factor " + std::to_string(options.factor) + ", patience " + std::to_string(options.patience) +
                         ", cooldown " + std::to_string(options.cooldown),
                     "a factor in [0, 1) and the others 0 or more", "Start with the defaults");
  }
  state_.best = (options.larger_is_better ? -1 : 1) * std::numeric_limits<double>::infinity();
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double sign = options_.larger_is_better ? 1 : -1, best = state_.best, threshold = options_.threshold;
  if (options_.absolute_threshold) return sign * metric > sign * (best + sign * threshold);
  // best · (1 ± threshold); an infinity stays one
  return sign * metric > sign * (best * (1 + sign * threshold));
}

void ReduceLROnPlateau::step(double metric) {
  if (is_better(metric)) {
    state_.best = metric;
    state_.bad_steps = 0;
  } else {
    state_.bad_steps++;
  }
  if (state_.cooldown > 0) {
    state_.cooldown--;
    state_.bad_steps = 0;
  }
  if (state_.bad_steps <= options_.patience) return;
  for (size_t group = 0; group < optimizer_.group_count(); group++) {
    const double rate = optimizer_.learning_rate(group);
    const double lower = std::max(rate * options_.factor, options_.min_lr);
    if (rate - lower > options_.eps) optimizer_.set_learning_rate(lower, group);
  }
  state_.cooldown = options_.cooldown;
  state_.bad_steps = 0;
}

}  // namespace ashlar::nn

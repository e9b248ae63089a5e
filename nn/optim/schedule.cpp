#include "nn/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

void require(bool fits, const char* name, const std::string& came, const char* needed) {
  if (!fits) throw ValueError(name, came, needed, "Count the optimiser's steps, or epochs, as scheduler.step() does");
}

void require_positive(const char* name, int64_t steps) {
  require(steps > 0, name, std::to_string(steps) + " steps", "a positive number");
}

/// From `from` to `to` along half a cosine, `part` of the way.
double along_cosine(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

double along_line(double from, double to, double part) { return from + (to - from) * part; }

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

}  // namespace

Schedule step_lr(int64_t step_size, double gamma) {
  require_positive("step_lr", step_size);
  return [=](double base, int64_t t) { return base * std::pow(gamma, static_cast<double>(t / step_size)); };
}

Schedule multi_step_lr(std::vector<int64_t> milestones, double gamma) {
  std::ranges::sort(milestones);
  return [milestones = std::move(milestones), gamma](double base, int64_t t) {
    const auto passed = std::ranges::upper_bound(milestones, t) - milestones.begin();
    return base * std::pow(gamma, static_cast<double>(passed));
  };
}

Schedule exponential_lr(double gamma) {
  return [gamma](double base, int64_t t) { return base * std::pow(gamma, static_cast<double>(t)); };
}

Schedule constant_lr(double factor, int64_t total_iters) {
  require_positive("constant_lr", total_iters);
  return [=](double base, int64_t t) { return t < total_iters ? base * factor : base; };
}

Schedule linear_lr(double start_factor, double end_factor, int64_t total_iters) {
  require_positive("linear_lr", total_iters);
  return [=](double base, int64_t t) {
    return base * along_line(start_factor, end_factor, ratio(std::min(t, total_iters), total_iters));
  };
}

Schedule polynomial_lr(int64_t total_iters, double power) {
  require_positive("polynomial_lr", total_iters);
  return
      [=](double base, int64_t t) { return base * std::pow(1 - ratio(std::min(t, total_iters), total_iters), power); };
}

Schedule cosine_annealing_lr(int64_t t_max, double eta_min) {
  require_positive("cosine_annealing_lr", t_max);
  return [=](double base, int64_t t) { return along_cosine(base, eta_min, ratio(t, t_max)); };
}

Schedule cosine_annealing_warm_restarts(int64_t t_0, int64_t t_mult, double eta_min) {
  require_positive("cosine_annealing_warm_restarts", std::min(t_0, t_mult));
  return [=](double base, int64_t t) {
    int64_t cycle = t_0;
    if (t_mult == 1) {
      t %= t_0;
    } else {
      for (; t >= cycle; cycle *= t_mult) t -= cycle;
    }
    return along_cosine(base, eta_min, ratio(t, cycle));
  };
}

Schedule one_cycle_lr(double max_lr, int64_t total_steps, const OneCycleOptions& options) {
  require_positive("one_cycle_lr", total_steps);
  require(options.pct_start > 0 && options.pct_start < 1, "one_cycle_lr",
          "pct_start = " + std::to_string(options.pct_start), "a number between 0 and 1");
  return [=](double /*base*/, int64_t t) {
    const double first = max_lr / options.div_factor, last = first / options.final_div_factor;
    const double top = options.pct_start * static_cast<double>(total_steps) - 1;
    const double end = static_cast<double>(total_steps) - 1;
    const double now = std::min(static_cast<double>(t), end);
    const auto along = options.linear ? along_line : along_cosine;
    if (now < top) return along(first, max_lr, now / top);
    return along(max_lr, last, (now - top) / (end - top));
  };
}

Schedule warm_up_stable_decay(int64_t total_steps, int64_t warm_up, int64_t decay, double end_factor) {
  require_positive("warm_up_stable_decay", total_steps);
  require(warm_up >= 0 && decay >= 0 && warm_up <= total_steps - decay, "warm_up_stable_decay",
          std::to_string(warm_up) + " steps of warm-up and " + std::to_string(decay) + " of decay in " +
              std::to_string(total_steps),
          "0 or more, together at most all of them");
  return [=](double base, int64_t t) {
    if (t < warm_up) return base * ratio(t + 1, warm_up);
    const int64_t into_decay = std::min(t, total_steps) - (total_steps - decay);
    return into_decay <= 0 ? base : base * along_line(1, end_factor, ratio(into_decay, decay));
  };
}

Schedule sequential_lr(std::vector<Schedule> schedules, std::vector<int64_t> milestones) {
  require(!schedules.empty() && milestones.size() + 1 == schedules.size() && std::ranges::is_sorted(milestones),
          "sequential_lr",
          std::to_string(schedules.size()) + " schedules and " + std::to_string(milestones.size()) + " milestones",
          "one milestone fewer than schedules, in rising order");
  return [schedules = std::move(schedules), milestones = std::move(milestones)](double base, int64_t t) {
    const auto i = static_cast<size_t>(std::ranges::upper_bound(milestones, t) - milestones.begin());
    return schedules[i](base, i == 0 ? t : t - milestones[i - 1]);
  };
}

}  // namespace ashlar::nn

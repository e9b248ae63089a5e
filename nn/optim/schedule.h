// Learning rates as functions of the step, under PyTorch's names and with its defaults.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace ashlar::nn {

/// The rate in step t (from 0) of a parameter group whose rate was `base` when its scheduler was made. A pure function,
/// so that a training that goes on at step t needs nothing but t.
using Schedule = std::function<double(double base, int64_t t)>;

/// All throw ValueError on a period or number of steps that isn't positive, and where it is said.

/// base · gamma^⌊t / step_size⌋
Schedule step_lr(int64_t step_size, double gamma = 0.1);
/// base · gamma^(number of milestones ≤ t)
Schedule multi_step_lr(std::vector<int64_t> milestones, double gamma = 0.1);
/// base · gamma^t
Schedule exponential_lr(double gamma);
/// base · factor before step total_iters, then base
Schedule constant_lr(double factor = 1.0 / 3, int64_t total_iters = 5);
/// From base · start_factor to base · end_factor along a line over total_iters steps: a warm-up.
Schedule linear_lr(double start_factor = 1.0 / 3, double end_factor = 1, int64_t total_iters = 5);
/// base · (1 - t / total_iters)^power, 0 from step total_iters on
Schedule polynomial_lr(int64_t total_iters = 5, double power = 1);
/// eta_min + (base - eta_min) · (1 + cos(π t / t_max)) / 2 (Loshchilov and Hutter 2017)
Schedule cosine_annealing_lr(int64_t t_max, double eta_min = 0);
/// The same with restarts: cycles of t_0, t_0 · t_mult, t_0 · t_mult², … steps.
Schedule cosine_annealing_warm_restarts(int64_t t_0, int64_t t_mult = 1, double eta_min = 0);

struct OneCycleOptions {
  double pct_start = 0.3;  ///< part of the steps in which the rate rises; in (0, 1)
  bool linear = false;     ///< anneal along lines instead of cosines
  double div_factor = 25;
  double final_div_factor = 1e4;
};
/// From max_lr / div_factor to max_lr and down to max_lr / div_factor / final_div_factor in total_steps steps, whatever
/// the base (Smith and Topin 2019, in PyTorch's form with cycle_momentum=False); stays there afterwards.
Schedule one_cycle_lr(double max_lr, int64_t total_steps, const OneCycleOptions& options = {});

/// Warm-up, stable, decay (Hu et al. 2024): from base / warm_up to base along a line in `warm_up` steps, base, and
/// along a line to base · end_factor in the last `decay` of total_steps steps; stays there afterwards. Throws
/// ValueError when warm-up and decay take more than total_steps.
Schedule warm_up_stable_decay(int64_t total_steps, int64_t warm_up, int64_t decay, double end_factor = 0);

/// Each schedule from its milestone on, counting from 0 there; the first from 0. Throws ValueError unless there is one
/// milestone fewer than schedules, in rising order.
Schedule sequential_lr(std::vector<Schedule> schedules, std::vector<int64_t> milestones);

}  // namespace ashlar::nn

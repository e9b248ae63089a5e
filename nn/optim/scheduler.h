// What sets an optimiser's learning rates while it trains.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "nn/optim/optimizer.h"
#include "nn/optim/schedule.h"

namespace ashlar::nn {

/// Sets the rate of every parameter group by a schedule: at first that of step 0, and with each step() the next one's.
/// Rates lie in tensors on the device, so that a captured optimiser step that is replayed obeys.
class Scheduler {
 public:
  /// The groups' rates at this moment are the schedule's base. The optimiser must outlive it.
  Scheduler(Optimizer& optimizer, Schedule schedule);

  /// To be called after optimizer.step(), or once an epoch: whatever the schedule counts.
  void step() { go_to(steps_ + 1); }
  /// Steps so far. With the base rates it is all there is to save.
  int64_t steps() const { return steps_; }
  const std::vector<double>& base_rates() const { return base_rates_; }
  /// Goes on from there. Throws ValueError on a negative number.
  void go_to(int64_t steps);
  /// The same with other base rates, those of a saved training. Throws ValueError unless there is one for each group.
  void restore(int64_t steps, std::vector<double> base_rates);

 private:
  Optimizer& optimizer_;
  Schedule schedule_;
  std::vector<double> base_rates_;
  int64_t steps_ = 0;
};

struct PlateauOptions {
  bool larger_is_better = false;  ///< PyTorch's mode="max"
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  bool absolute_threshold = false;  ///< PyTorch's threshold_mode="abs"
  int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;  ///< a smaller change of the rate isn't made
};

/// Multiplies the rates by `factor` when a metric hasn't become better for more than `patience` steps, as
/// torch.optim.lr_scheduler.ReduceLROnPlateau.
class ReduceLROnPlateau {
 public:
  /// Throws ValueError unless 0 ≤ factor < 1.
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});

  /// With an epoch's metric; NaN is no progress.
  void step(double metric);

  struct State {
    double best = 0;
    int64_t bad_steps = 0;
    int64_t cooldown = 0;
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  bool is_better(double metric) const;
  Optimizer& optimizer_;
  PlateauOptions options_;
  State state_;
};

}  // namespace ashlar::nn

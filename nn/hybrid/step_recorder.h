// What the steps of a training leave behind for the features of its state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/hybrid/training_state.h"
#include "nn/optim/optimizer.h"

namespace ashlar::nn {

/// Each step's loss and gradient norm go to a ring on the device, as part of the step; the host reads them in groups,
/// with the norms of weights and moments as they are then.
class StepRecorder {
 public:
  /// read() is called every `most` steps at least. The optimiser must outlive it.
  StepRecorder(const Optimizer& optimizer, Device device, int64_t most);

  /// Within the step, which may be captured: behind the update, with the loss (rank 0, f32).
  void measure(const Tensor& loss) const;
  /// What it left, on the device: loss and gradient norm, f32 [2].
  const Tensor& last() const { return last_; }
  /// Behind the step. Throws ValueError where more steps than the ring has weren't read.
  void keep();
  /// Steps that weren't read yet.
  int64_t waiting() const { return static_cast<int64_t>(rates_waiting_.size()); }
  /// Takes them into the history; waits for the device. Returns how many there were.
  int64_t read();
  /// Those that weren't read are forgotten, and of those that were all but the first `count` ever.
  void go_back(int64_t count);
  /// Steps ever taken in.
  int64_t count() const { return count_; }

  /// The history up to the step that was the `count`-th to be taken in; the phase and progress aren't its business.
  TrainingMeasures measures(int64_t count) const;
  /// Losses of the steps first, first + 1, … last - 1, counted from 0. They must be among the last kHistory.
  std::span<const double> losses(int64_t first, int64_t last) const;

  /// For checkpoints: "recorded", "waiting", "recorder".
  NamedTensors state_dict() const;
  /// Throws ValueError.
  void load_state_dict(const NamedTensors& state);

  /// Steps of the history that are kept.
  static constexpr size_t kHistory = 2048;

 private:
  ArenaNorms norms() const;

  const Optimizer& optimizer_;
  int64_t most_;
  Tensor last_;  // f32 [2]: loss and gradient norm
  Tensor ring_;  // f32 [most, 2]
  std::vector<double> rates_waiting_;
  int64_t count_ = 0;
  std::vector<double> losses_, gradients_, rates_;  // of the last steps
  ArenaNorms now_, before_;
};

}  // namespace ashlar::nn

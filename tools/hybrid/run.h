// One training of a comparison.
#pragma once

#include <cstdint>
#include <string>

#include "nn/hybrid/options.h"
#include "tools/hybrid/tasks.h"

namespace ashlar::tools {

/// Everything that decides a training's outcome; equal runs are made once.
struct Run {
  std::string task;
  std::string schedule = "wsd";  ///< wsd (the last 30 % decay), cosine
  double learning_rate = 1e-3;
  double beta2 = 0.999;
  int64_t steps = 0;  ///< predicted ones included
  uint64_t seed = 0;
  Split split = Split::test;
  nn::Forecaster forecaster = nn::Forecaster::none;
  int64_t window = 40, horizon = 10;
  bool dense = false;  ///< jumps as often as they can be judged, from a fifth of the training on
  /// forecast: whether a jump is made, of `horizon` steps at most, is left to a forecast of the loss.
  nn::JumpLength length = nn::JumpLength::fixed;
  int64_t residuals = 0;  ///< of the last jumps that correct later ones; with a forecast of the loss
  /// Who chooses the samples of a batch: empty, shuffled epochs; "last", "age", "average" or "ensemble", draws by
  /// the forecast of that rule, with SampleForecast's defaults otherwise; "last unlimited" and so on, without the limit
  /// for what stays hard.
  std::string sampler = {};
  int64_t lookahead = 0;  ///< steps between Lookahead's moves (Zhang et al. 2019), factor 0.5; 0: none
  double label_noise = 0;

  /// "fashion wsd lr 0.002 b2 0.99 steps 3200 seed 1 test direction 40 10"
  std::string key() const;
  /// What the device computes beside plain steps, so what differs in time: "direction dense samples last", "direction
  /// dense forecast residuals 16".
  std::string kind() const;
};

struct Result {
  Run run;
  HeldOut averaged, last;  ///< of the averaged weights, and of the last ones
  /// Of training, from an idle device to an idle device: captures, forecasts, copies and guards included, evaluation
  /// not.
  double seconds = 0;
  double predict_seconds = 0;  ///< of these in jumps, and in forecasts of the loss
  int64_t computed = 0;        ///< steps with forward and backward pass
  int64_t accepted = 0, rejected = 0, rolled_back = 0, held_back = 0;
  bool diverged = false;
  bool alone = false;  ///< nothing else of this program ran meanwhile
};

/// Trains and measures. The batches are drawn on the device, within the step.
Result train(const Task& task, const Run& run, Device device);

nn::HybridOptions hybrid_options(const Run& run);
/// Batches that a run draws when all jumps are kept: what a SampleForecast takes for the whole training.
int64_t least_draws(const nn::HybridOptions& options);

}  // namespace ashlar::tools

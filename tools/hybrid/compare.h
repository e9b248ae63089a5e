// Hybrid training beside plain training at the same cost: which runs there are, and what came of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nn/hybrid/hybrid_trainer.h"
#include "tools/hybrid/tasks.h"

namespace ashlar::tools {

/// One training. Everything that decides its outcome; equal runs are made once.
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
  /// Who chooses the samples of a batch: empty, shuffled epochs; "last", "age" or "average", draws by the forecast of
  /// that rule, with SampleForecast's defaults otherwise; "last unlimited" and so on, without the limit for what stays
  /// hard.
  std::string sampler = {};
  int64_t lookahead = 0;  ///< steps between Lookahead's moves (Zhang et al. 2019), factor 0.5; 0: none

  /// "fashion wsd lr 0.002 b2 0.99 steps 3200 seed 1 test direction 40 10"
  std::string key() const;
};

struct Result {
  Run run;
  HeldOut averaged, last;  ///< of the averaged weights, and of the last ones
  double seconds = 0;      ///< of training: forecasts, copies and guards included, evaluation not
  double predict_seconds = 0;
  int64_t computed = 0;  ///< steps with forward and backward pass
  int64_t accepted = 0, rejected = 0, rolled_back = 0;
  bool diverged = false;
};

struct CompareOptions {
  std::vector<std::string> tasks = {"regression", "fashion"};
  std::filesystem::path data;
  Device device;
  int seeds = 5;
  int tuning_seeds = 2;
  int budgets = 4;   ///< of each task's, from the smallest
  bool wide = true;  ///< all rates, betas, windows; otherwise half of them
  std::filesystem::path results;
  double limit = 1e9;  ///< seconds; no run begins after them
};

/// Makes all runs that `results` (JSON, a line a run) doesn't have yet and appends each as it comes. True when all are
/// there. Throws DataError when the file can't be read or written.
bool compare(const CompareOptions& options);

}  // namespace ashlar::tools

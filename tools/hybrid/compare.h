// Hybrid training beside plain training at the same cost: which runs there are.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tools/hybrid/results.h"
#include "tools/hybrid/tasks.h"

namespace ashlar::tools {

struct CompareOptions {
  std::vector<std::string> tasks = {"regression", "fashion"};
  TaskData data;
  /// Of "plain" (which is tuned in any case), "lookahead", "jumps" (each forecaster of weights, and those whose jumps a
  /// forecast of the loss decides), "samples" (drawn by forecast) and "both".
  std::vector<std::string> kinds = {"plain", "lookahead", "jumps", "samples", "both"};
  int seeds = 5;
  int tuning_seeds = 2;
  int budgets = 4;            ///< of each task's, from the smallest
  int64_t shortest = 0;       ///< steps of the smallest budget, each further one twice as long; 0: the task's own
  std::vector<double> rates;  ///< learning rates to choose from; none: six of them
  bool wide = true;           ///< all rates and windows; otherwise half of them
  ResultsOptions results;
};

/// Makes all runs that the file of results doesn't have yet and appends each as it comes. True when all are there.
/// Throws as make_task() and Results.
bool compare(const CompareOptions& options);

}  // namespace ashlar::tools

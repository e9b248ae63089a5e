// Metrics of a training run as CSV.
#pragma once

#include <filesystem>
#include <fstream>

#include "nn/trainer/meter.h"

namespace ashlar::nn {

struct EpochMetrics {
  int epoch = 0;  ///< from 1
  double learning_rate = 0;
  Scores train;
  Scores test;
  double seconds = 0;  ///< of training, without the evaluation
  double samples_per_second = 0;
};

/// One row for each epoch, on disk as soon as it is known.
class MetricsFile {
 public:
  /// Overwrites `file`. Throws DataError when it can't.
  explicit MetricsFile(const std::filesystem::path& file);
  /// Throws DataError when the disk refuses.
  void write(const EpochMetrics& metrics);

 private:
  void check() const;
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace ashlar::nn

// Where a training's batches come from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

class SampleForecast;

/// One pass over the data per start(). fit() and HybridTrainer take any.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// Begins epoch number `epoch` at its batch number `first`: where an interrupted training was.
  virtual void start(uint64_t epoch, int64_t first = 0) = 0;
  /// The next batch; nothing at the end of the epoch or before start().
  virtual std::optional<std::vector<Tensor>> next() = 0;
  /// Of an epoch.
  virtual int64_t batches() const = 0;
  /// Number of the batch that next() gives.
  virtual int64_t position() const = 0;
  /// Samples of each batch where the training step draws it itself, on the device: next() only counts batches then, and
  /// gives empty ones. 0: next() gives them.
  virtual int64_t drawn_samples() const { return 0; }
  /// Such a batch. Copies nothing from or to the host, so that a captured step may begin with it, and replays go on.
  virtual std::vector<Tensor> draw() { return {}; }
  /// One that draws its batches and learns from the samples' losses; null: another.
  virtual SampleForecast* forecast() { return nullptr; }
};

}  // namespace ashlar::nn

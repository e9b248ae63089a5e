// Where a training over epochs stands: what fit() and HybridTrainer keep, save and report alike.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "nn/trainer/checkpoint.h"
#include "nn/trainer/fit.h"

namespace ashlar::nn {

class TrainingSession {
 public:
  /// `name` begins the messages of errors. `training` outlives it.
  TrainingSession(const Training& training, const char* name) : training_(training), name_(name) {}

  /// Parts "model", "optimizer" and "training".
  void add_to(Checkpoint& checkpoint) const;
  /// Throws ValueError on a checkpoint of another training; `file` stands in its message.
  void restore(const Checkpoint& checkpoint, const std::filesystem::path& file);

  /// Puts the model into training mode, and the loader where the epoch is.
  void start_epoch();
  /// A batch's loss, rank 0, f32: added up on its device, nothing is waited for.
  void add_loss(const Tensor& loss);
  /// The loader's position is reached by the weights.
  void advance() { first_batch_ = training_.data.position(); }
  /// Throws DivergenceError when the epoch's sum isn't finite.
  void check_finite() const;
  /// Validates, remembers the epoch with the mean over `batches` and goes on to the next one.
  void finish_epoch(int64_t batches);
  /// "epoch 3/8  loss 0.25  validation 0.3" of the last one; without a planned number "epoch 3".
  void print_epoch(std::ostream& log, int planned) const;
  /// All rows anew, so that none is there twice or missing after an interruption.
  void write_metrics(const std::filesystem::path& file) const;

  const std::vector<FitEpoch>& epochs() const { return epochs_; }
  /// Batches of the epoch that runs whose updates are made.
  int64_t first_batch() const { return first_batch_; }
  /// Sum over the epoch's batches so far, rank 0; undefined before the first.
  const Tensor& loss() const { return loss_; }
  void set_loss(const Tensor& loss) { loss_ = loss; }

 private:
  const Training& training_;
  const char* name_;
  std::vector<FitEpoch> epochs_;
  int64_t first_batch_ = 0;
  Tensor loss_;
};

}  // namespace ashlar::nn

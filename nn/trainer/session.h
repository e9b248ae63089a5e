// Where a training over epochs stands: what fit() and HybridTrainer keep, save and report alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nn/optim/precision.h"
#include "nn/trainer/checkpoint.h"
#include "nn/trainer/fit.h"

namespace ashlar::nn {

class TrainingSession {
 public:
  /// `name` begins the messages of errors; the one about a loss that isn't finite says that `finder` names the
  /// operation. `training` outlives it.
  TrainingSession(const Training& training, const char* name, const char* finder);

  /// Parts "model", "optimizer", "training", and those of metrics and an average where there are.
  void add_to(Checkpoint& checkpoint) const;
  /// Throws ValueError on a checkpoint of another training; `file` stands in its message.
  void restore(const Checkpoint& checkpoint, const std::filesystem::path& file);

  /// Puts the model into training mode, and the loader where the epoch is.
  void start_epoch();
  /// The loss of `batch`, one element; where the step draws its data, of the batch that they draw now, and those drawn
  /// by forecast are told of its samples' losses. The batch's first part comes as `precision`'s input.
  Var loss_of(std::vector<Tensor> batch, const Precision& precision) const;
  /// A batch's loss, rank 0, f32: added up on its device, nothing is waited for.
  void add_loss(const Tensor& loss);
  /// For the throughput: a batch of so many samples.
  void count_samples(const std::vector<Tensor>& batch);
  /// The loader's position is reached by the weights.
  void advance() { first_batch_ = training_.data.position(); }
  /// Throws DivergenceError when the epoch's sum isn't finite.
  void check_finite() const;
  /// Validates, remembers the epoch with the mean over `batches` and goes on to the next one.
  void finish_epoch(int64_t batches);
  /// Samples in a second of this epoch so far.
  double samples_per_second() const;
  /// "epoch 3/8  loss 0.25  validation 0.3" of the last one, and its metrics; without a planned number "epoch 3".
  std::string epoch_text(int planned) const;
  /// All rows anew, so that none is there twice or missing after an interruption. Nothing without a name.
  void write_metrics(const std::filesystem::path& file) const;
  /// Curves over epochs. Nothing without a name.
  void write_plot(const std::filesystem::path& file) const;
  /// The last epoch's numbers under the names of curves: "loss/training", "loss/validation", "learning_rate", …
  std::vector<std::pair<std::string, double>> scalars() const;

  const std::vector<FitEpoch>& epochs() const { return epochs_; }
  /// Whether this epoch's weights are averaged.
  bool averages() const {
    return training_.average != nullptr && static_cast<int>(epochs_.size()) >= training_.average_from;
  }
  /// Batches of the epoch that runs whose updates are made.
  int64_t first_batch() const { return first_batch_; }
  /// Sum over the epoch's batches so far, rank 0; undefined before the first.
  const Tensor& loss() const { return loss_; }
  void set_loss(const Tensor& loss) { loss_ = loss; }

 private:
  bool validates() const { return training_.validate || training_.validation != nullptr; }
  double mean_loss_of(DataLoader& data) const;
  std::vector<std::pair<std::string, double>> read_metrics() const;
  std::vector<std::string> columns() const;
  std::vector<double> row(const FitEpoch& epoch) const;
  FitEpoch epoch_from(const double* row) const;

  const Training& training_;
  const char* name_;
  const char* finder_;
  std::vector<FitEpoch> epochs_;
  int64_t first_batch_ = 0;
  Tensor loss_;
  int64_t samples_ = 0;
  std::chrono::steady_clock::time_point start_;  // of counting them
};

}  // namespace ashlar::nn

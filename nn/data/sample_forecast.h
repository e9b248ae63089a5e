// Batches of the samples that need a step: those whose losses are forecast to be large.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nn/data/batch_source.h"
#include "nn/data/device_dataset.h"
#include "nn/data/sample_ensemble.h"
#include "nn/module.h"

namespace ashlar::nn {

/// The defaults are those of the pilot that docs/hybrid.md tells of.
struct SampleForecastOptions {
  int64_t batch = 1;
  int64_t steps = 0;  ///< batches of the whole training; must be said, since the uniform end is a part of them
  uint64_t seed = 0;
  Device device = {};

  /// A sample is drawn with a probability that goes with rank^sharpness + floor, its forecast's rank among all in
  /// [0, 1). Sharpness 0 draws uniformly.
  double sharpness = 2;
  double floor = 0.1;  ///< so that none is forgotten; above 0, unless sharpness is 0
  double uniform_end =
      0.15;  ///< this last part of the training takes the samples in shuffled order, each once an epoch

  /// A forecast is the loss at the last visit, over the mean of all visits around that time to this power: with 1, what
  /// wasn't visited for long is taken to have fallen as the mean did. 0: the last loss alone.
  double age = 0;
  /// How much of the change since the forecast before is added to the last loss: above 0 a trend goes on, below 0
  /// forecasts are averages over visits. In (-1, 1].
  double trend = 0;
  /// In place of both, a small recurrent ensemble that reads each sample's last losses and learns from this very
  /// training how they go on. Where its members disagree the forecast is raised: the sample is looked at again sooner.
  std::optional<SampleEnsembleOptions> ensemble = {};

  /// Label noise: a sample whose loss ranked above the part `hard` of all at `patience` visits in a row may be wrong.
  /// Until a visit finds it easier it counts as one of rank `cap`, if it ranks higher. Patience 0: no such limit.
  double hard = 0.8;
  int64_t patience = 6;
  double cap = 0.5;

  /// Training on hard samples can spoil a network's calibration, which its held-out loss shows: after so many epochs in
  /// a row whose validation isn't below the least so far, the rest is drawn uniformly. 0: not looked at.
  int64_t rising = 3;

  int64_t bins = 2048;  ///< that ranks are told apart by, over 32 octaves of losses

  /// Throws ValueError that names the first option that can't be, and says what could.
  void validate() const;
};

/// A data set on a device whose batches are drawn there, each sample the more often the larger its loss is forecast to
/// be. All of it lies on the device: nothing waits, and a training step that draws its batch and tells of its losses
/// may be captured into a graph. The same seed, data and losses give the same batches.
///
///   nn::SampleForecast data({images, labels}, {.batch = 128, .steps = epochs * (60000 / 128), .device = device});
///   const auto loss = [&](const std::vector<Tensor>& batch) {
///     return nn::cross_entropy(model(batch[0]), batch[1], {.reduction = nn::Reduction::none});
///   };
///   nn::fit({model, optimizer, data, loss}, {.epochs = epochs, .checkpoint = file});
///
/// Losses are expected to be 0 or more; negative ones count as 0. Never visited samples are the hardest. A batch has
/// one sample from each of `batch` equal parts of the probabilities: a sample's expected number of places in it is
/// exactly batch times its probability.
class SampleForecast : public BatchSource {
 public:
  /// Moves the tensors, whose axis 0 counts samples, to the device. Throws as DeviceDataset and options.validate().
  SampleForecast(const std::vector<Tensor>& tensors, const SampleForecastOptions& options);

  void start(uint64_t epoch, int64_t first = 0) override;
  std::optional<std::vector<Tensor>> next() override;
  int64_t batches() const override { return data_.batches(); }
  int64_t position() const override { return position_; }
  int64_t drawn_samples() const override { return options_.batch; }
  /// A batch of each tensor. What fit() calls in each step.
  std::vector<Tensor> draw() override;
  SampleForecast* forecast() override { return this; }

  int64_t size() const { return data_.size(); }
  int64_t batch() const { return options_.batch; }
  const SampleForecastOptions& options() const { return options_; }

  /// The losses of the samples that draw() gave last, one each, of any floating dtype. In a captured step its work runs
  /// beside what follows (ashlar::beside): call it before gradients are computed. Throws ShapeError on another number.
  void observe(const Tensor& losses);
  /// The held-out loss after an epoch.
  void watch(double held_out);

  /// i64 [batch] on the device: which samples draw() gave.
  const Tensor& rows() const { return rows_; }
  /// State of the numbers by chance that belong to the batch, for RandomCropFlip and the like.
  const Tensor& random() const { return data_.random(); }
  /// f32 [size] on the device: +Inf where there was no visit yet.
  const Tensor& forecasts() const { return forecasts_; }
  /// i32 [size] on the device: visits in a row whose loss was hard.
  const Tensor& streaks() const { return streaks_; }
  /// How good the ensemble's forecasts were. Waits for the device. Throws ValueError without one.
  SampleEnsembleReport ensemble_report() const;

  /// For checkpoints; fit() and HybridTrainer save it. Shares storage.
  NamedTensors state_dict() const;
  /// Throws ValueError or ShapeError, before anything is written, on the state of another data set or other options.
  void load_state_dict(const NamedTensors& state);

 private:
  void weigh();
  Tensor level_after(const Tensor& losses);
  NamedTensors own_state() const;

  SampleForecastOptions options_;
  DeviceDataset data_;
  int64_t position_ = 0;
  bool started_ = false;
  int64_t limit_ = 0, patience_ = 0;  // of a weight, from so many hard visits on

  std::unique_ptr<SampleHistory> history_;  // with an ensemble

  Tensor weights_;                       // i32 [parts of the ranks]
  Tensor bin_weights_, ends_;            // what forecast_weights() says of them and of the three that follow
  Tensor forecasts_, streaks_, counts_;  // [size], [size], [bins]
  Tensor random_;                        // i64 [2]
  Tensor drawn_, uniform_from_;          // i64 [1]: batches so far, and where the uniform end begins
  Tensor level_sum_, level_weight_;      // f32, rank 0: a running mean of losses
  Tensor watched_;                       // f64 [2] on the host: the least held-out loss, epochs since
  Tensor rows_;                          // i64 [batch]
};

}  // namespace ashlar::nn

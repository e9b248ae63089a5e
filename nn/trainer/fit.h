// Training by any step function, that can be interrupted at any moment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/data/data_loader.h"
#include "nn/module.h"
#include "nn/optim/optimizer.h"
#include "nn/optim/scheduler.h"
#include "nn/optim/weight_average.h"
#include "nn/trainer/metric.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

/// A loss that is no longer finite.
struct DivergenceError : Error {
  using Error::Error;
};

/// What is trained; all of it outlives the training.
struct Training {
  Module& model;
  Optimizer& optimizer;
  BatchSource& data;
  /// The loss of a batch as `data` gives it, on the parameters' device: one element, or one for each sample, whose mean
  /// counts then (a SampleForecast wants these). The only thing that is the task's own. Where steps are replayed it is
  /// called for a few of them only: what it decides on the host holds for the others.
  std::function<Var(const std::vector<Tensor>& batch)> loss;
  Scheduler* scheduler = nullptr;  ///< stepped after each update
  /// After each epoch, in evaluation mode and without a tape: what shall become small (a held-out loss).
  std::function<double()> validate = {};
  /// Gone through after each epoch, in evaluation mode and without a tape: the mean of `loss` over its samples. Where
  /// there's a validate() too, that one's number counts.
  DataLoader* validation = nullptr;
  /// What `loss` tells of outputs and targets, in training and in `validation`.
  const Metrics* metrics = nullptr;
  /// Updated after each update, from epoch number `average_from` (from 0) on; the model computes with it in validation.
  WeightAverage* average = nullptr;
  int average_from = 0;
  /// Told of each epoch's validation.
  ReduceLROnPlateau* plateau = nullptr;
};

struct FitOptions {
  int epochs = 1;
  int64_t accumulate =
      1;  ///< batches whose gradients make one update, by their mean; the last of an epoch may be fewer
  /// Written every `checkpoint_every` updates and after each epoch. Where the file is there, the training goes on from
  /// it.
  std::filesystem::path checkpoint = {};
  int64_t checkpoint_every = 1000;
  std::filesystem::path metrics = {};  ///< CSV with a row for each epoch, the same in every run
  int patience = 0;                    ///< stop after so many epochs without a smaller validation; 0: never
  std::ostream* log = nullptr;         ///< a line for each epoch
  /// Updates are captured once and replayed (replayed_step.h). Default: on CUDA, unless the loss does what can't be
  /// captured.
  std::optional<bool> replay = {};
  std::filesystem::path events = {};  ///< folder for TensorBoard; epochs stand at the optimiser's steps
  /// Updates between points of "loss/update" there, each the mean loss since the last one: waits for the device. 0:
  /// none.
  int64_t events_every = 0;
  std::filesystem::path plot = {};  ///< SVG of the curves, anew after each epoch
  /// A line in `log` of where the epoch is. Default: where `log` is a terminal.
  std::optional<bool> progress = {};
  /// f16 or bf16: forward and backward compute in it, weights and updates are f32 (nn/optim/mixed_precision.h). The
  /// batch's first part, the model's input, comes to `loss` in it where it's floating point. Validation computes in
  /// f32.
  std::optional<DType> amp = {};
  /// A NaN or an infinity in a training step ends it with an AnomalyError that names the operation which made it,
  /// forward or backward (autograd/anomaly_mode.h), before the weights change; validation isn't looked at. In f16
  /// forward alone: gradients that overflow there only leave their step out. For finding errors: every operation is
  /// waited for, and steps aren't replayed. A network that computes with infinities wants an AnomalyMode(Anomaly::nan)
  /// around fit().
  bool detect_anomaly = false;
};

struct FitEpoch {
  double loss = 0;                ///< mean over the epoch's batches
  double validation = 0;          ///< NaN without validate() and `validation`
  double learning_rate = 0;       ///< after it
  double samples_per_second = 0;  ///< of training, without the validation, since the training went on
  /// By their names; what wasn't measured is missing.
  std::vector<std::pair<std::string, double>> metrics = {}, validation_metrics = {};
};

/// Epochs as they were, those before an interruption included. Killed at any moment and called again with the same
/// arguments, everything anew, it ends with the same bits as a training that nobody interrupted, wherever one call
/// without a checkpoint gives the same bits twice.
///
/// Throws DivergenceError when a loss isn't finite, seen at the next checkpoint or end of an epoch: the file still
/// holds the last finite state. Throws AnomalyError under `detect_anomaly`, ValueError on options that aren't positive,
/// or a checkpoint of another training.
std::vector<FitEpoch> fit(const Training& training, const FitOptions& options);

}  // namespace ashlar::nn

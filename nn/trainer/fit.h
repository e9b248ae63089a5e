// Training by any step function, that can be interrupted at any moment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <vector>

#include "nn/data/data_loader.h"
#include "nn/module.h"
#include "nn/optim/optimizer.h"
#include "nn/optim/scheduler.h"
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
  DataLoader& data;
  /// The loss, one element, of a batch as the loader gives it (on the CPU): the only thing that is the task's own.
  std::function<Var(const std::vector<Tensor>& batch)> loss;
  Scheduler* scheduler = nullptr;  ///< stepped after each update
  /// After each epoch, in evaluation mode and without a tape: what shall become small (a held-out loss).
  std::function<double()> validate = {};
};

struct FitOptions {
  int epochs = 1;
  int64_t accumulate =
      1;  ///< batches whose gradients make one update, by their mean; the last of an epoch may be fewer
  /// Written every `checkpoint_every` updates and after each epoch. Where the file is there, the training goes on from
  /// it.
  std::filesystem::path checkpoint = {};
  int64_t checkpoint_every = 1000;
  std::filesystem::path metrics = {};  ///< CSV with a row for each epoch
  int patience = 0;                    ///< stop after so many epochs without a smaller validate(); 0: never
  std::ostream* log = nullptr;         ///< a line for each epoch
};

struct FitEpoch {
  double loss = 0;           ///< mean over the epoch's batches
  double validation = 0;     ///< NaN without validate()
  double learning_rate = 0;  ///< after it
};

/// Epochs as they were, those before an interruption included. Killed at any moment and called again with the same
/// arguments, everything anew, it ends with the same bits as a training that nobody interrupted, wherever one call
/// without a checkpoint gives the same bits twice.
///
/// Throws DivergenceError when a loss isn't finite, seen at the next checkpoint or end of an epoch: the file still
/// holds the last finite state. Throws ValueError on options that aren't positive, or a checkpoint of another training.
std::vector<FitEpoch> fit(const Training& training, const FitOptions& options);

}  // namespace ashlar::nn

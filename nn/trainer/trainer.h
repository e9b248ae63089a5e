// Training and evaluating a classifier of images.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "nn/data/loader.h"
#include "nn/data/mnist.h"
#include "nn/module.h"
#include "nn/optim/optimizer.h"
#include "nn/optim/precision.h"
#include "nn/trainer/meter.h"
#include "nn/trainer/replayed_step.h"

namespace ashlar::nn {

/// Bytes that steady training steps moved between host and device, beside what they had to move.
struct TransferReport {
  int64_t steps = 0;        ///< steps counted: all but the first few, which set things up
  int64_t batch_bytes = 0;  ///< of their images and labels
  int64_t bytes_in = 0;     ///< host → device during these steps
  int64_t bytes_out = 0;    ///< device → host during these steps
  int64_t allocations = 0;  ///< asked of driver or system during these steps
  /// Only the batch went in and nothing came out.
  bool is_clean() const { return bytes_in == batch_bytes && bytes_out == 0; }
};

/// The model reads pixels as (pixel / 255 - mean) / deviation, [batch, pixels], and answers with logits
/// [batch, classes]. Batches go to the device as bytes and are converted there. Nothing comes back but the scores, when
/// they are asked for.
///
/// On CUDA the second step of each pass is captured as a graph, which the further ones replay: the same kernels in the
/// same order, so the same numbers. Steps on a batch of another size, such as the last one, are not.
class Trainer {
 public:
  /// Model and optimiser must outlive the trainer; the model is moved to `device`. With `amp` (f16 or bf16) training
  /// computes in it, weights and updates are f32; evaluation computes in f32.
  template <LayerModule M>
  Trainer(M& model, Optimizer& optimizer, Device device, const PixelStatistics& statistics,
          std::optional<DType> amp = {})
      : Trainer(
            model, [&model](const Var& x) -> Var { return model(x); }, optimizer, device, statistics, amp) {}
  /// The same with the function that computes logits.
  Trainer(Module& model, std::function<Var(const Var&)> forward, Optimizer& optimizer, Device device,
          const PixelStatistics& statistics, std::optional<DType> amp = {});

  /// Whether steps are captured and replayed; by default on CUDA, where launching them costs more than running them.
  void set_replay(bool replay) { replayed_.set_replay(replay); }

  /// Called after each step with the samples done so far; scores() may be asked then.
  using Observer = std::function<void(int64_t done)>;
  /// One pass over `data`, with updates. Returns the mean scores during it.
  Scores train(BatchLoader& data, uint64_t epoch, const Observer& observer = {});
  /// One pass over `data` without updates.
  Scores evaluate(BatchLoader& data);

  /// Of the pass that runs: waits for the device and copies two numbers.
  Scores scores() const { return meter_.read(); }
  const TransferReport& transfers() const { return transfers_; }
  /// Its state goes into checkpoints.
  const Precision& precision() const { return precision_; }

 private:
  Tensor normalised(const Tensor& images) const;  // f32 [batch, pixels] of u8
  void compute(const Tensor& images, const Tensor& labels);

  Module& model_;
  std::function<Var(const Var&)> forward_;
  Optimizer& optimizer_;
  Device device_;
  Precision precision_;
  double scale_;  // pixel · scale + shift
  double shift_;
  Meter meter_;
  TransferReport transfers_;
  int64_t steps_ = 0;
  ReplayedStep replayed_;
};

}  // namespace ashlar::nn

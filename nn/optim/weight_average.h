// Averages of the weights that an optimiser passes through, which often do better than the last ones.
#pragma once

#include <optional>
#include <vector>

#include "nn/optim/optimizer.h"

namespace ashlar::nn {

/// In f32, one kernel over each arena of the optimiser, counted on the device: update() may be part of a captured step.
///
/// With a decay, an exponential average, as torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay): the
/// first update() copies the weights, each further one does average = decay · average + (1 - decay) · weights. Without,
/// the mean of the weights at all updates (stochastic weight averaging, Izmailov et al. 2018).
class WeightAverage {
 public:
  /// The optimiser must outlive it. Throws ValueError on a decay outside of [0, 1).
  explicit WeightAverage(const Optimizer& optimizer, std::optional<double> decay = {});

  /// Takes the weights of now in. This and the calls below throw ValueError when the parameters have moved to another
  /// device or dtype since it was made.
  void update();
  /// The network computes with the averages, until restore(). Throws ValueError before an update() or when applied.
  void apply();
  /// Puts the trained weights back.
  void restore();

  /// For checkpoints: "count.<arena>" and "average.<arena>"; not while applied.
  NamedTensors state_dict() const;
  /// Throws ValueError, ShapeError before anything is written.
  void load_state_dict(const NamedTensors& state) const;

 private:
  void check() const;
  const Optimizer& optimizer_;
  std::optional<double> decay_;
  std::vector<Tensor> values_;    // the arenas'
  std::vector<Tensor> averages_;  // f32
  std::vector<Tensor> counts_;    // rank 0, f32
  std::vector<Tensor> trained_;   // while applied
};

}  // namespace ashlar::nn

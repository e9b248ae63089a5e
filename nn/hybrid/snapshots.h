// Weights as they were, on their device: what forecasts are made from, and what a training goes back to.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "nn/optim/optimizer.h"

namespace ashlar::nn {

/// A few snapshots of an optimiser's arenas, f32, in one tensor [snapshots, elements] for each arena. All of it is a
/// copy, a product or a difference over whole arenas, and nothing comes to the host but the few numbers of gram().
class SnapshotWindow {
 public:
  /// Takes memory at the first take().
  SnapshotWindow(const Optimizer& optimizer, int64_t snapshots) : optimizer_(optimizer), snapshots_(snapshots) {}

  int64_t taken() const { return taken_; }
  bool is_full() const { return taken_ == snapshots_; }
  void clear() { taken_ = 0; }
  /// The weights of now. Throws ValueError when full, or when the parameters have moved since the first one.
  void take();
  /// Σ coefficients[j] · snapshot[j], f32 and of rank 1, for each arena. Throws ValueError unless full, with a
  /// coefficient each.
  std::vector<Tensor> combined(const std::vector<double>& coefficients) const;
  /// The same becomes the weights.
  void move_to(const std::vector<double>& coefficients) const { move_to(combined(coefficients)); }
  /// So do these, one tensor for each arena.
  void move_to(const std::vector<Tensor>& weights) const;
  /// [snapshots, elements], f32, of each arena; those taken so far are filled. None before the first.
  const std::vector<Tensor>& windows() const { return windows_; }
  /// [n, n] row-major, n = snapshots - 1: products of the moves from each snapshot to the next.
  std::vector<double> gram() const;

  /// For checkpoints: "snapshots.<arena>", those taken so far; none without one.
  NamedTensors state_dict() const;
  /// Throws ValueError, ShapeError on what another network or another window left.
  void load_state_dict(const NamedTensors& state);

 private:
  void allocate();
  const Optimizer& optimizer_;
  int64_t snapshots_;
  int64_t taken_ = 0;
  std::vector<Tensor> windows_;
};

/// One state of a training, to go back to: weights, optimiser, buffers of the module and what else is given. Copies
/// over whole arenas.
class GoodState {
 public:
  GoodState(const Module& model, const Optimizer& optimizer, std::vector<Tensor> more)
      : model_(model), optimizer_(optimizer), more_(std::move(more)) {}
  bool is_kept() const { return kept_; }
  void keep();
  /// Puts everything back. Throws ValueError when nothing is kept.
  void restore() const;
  void forget() { kept_ = false; }

  /// For checkpoints: "good.<number>"; nothing unless kept.
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  std::vector<Tensor> live() const;
  const Module& model_;
  const Optimizer& optimizer_;
  const std::vector<Tensor> more_;
  bool kept_ = false;
  std::vector<Tensor> copies_;
};

}  // namespace ashlar::nn

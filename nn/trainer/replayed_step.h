// A training step that is captured once and replayed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// Runs a step on batch after batch. Replaying, the first one runs as it is, the second is captured as a graph, and
/// further ones of the same shapes and dtypes are replays: the same kernels in the same order, so the same bits.
/// Batches of other shapes (the last of an epoch) run as they are, and all do under an AnomalyMode. A step that draws
/// its batch itself gets an empty one.
///
/// Whether that is done may be said. If not, it is on CUDA, where launching kernels costs more than running many of
/// them, until a step does what can't be captured; why_not() says what that was.
class ReplayedStep {
 public:
  /// `compute` gets the batch on `device`, always in the same tensors where it's replayed.
  ReplayedStep(Device device, std::optional<bool> replay,
               std::function<void(const std::vector<Tensor>& batch)> compute);
  ReplayedStep(const ReplayedStep&) = delete;
  ReplayedStep& operator=(const ReplayedStep&) = delete;

  /// Tensors from any device. Throws what the step throws; GraphError from a capture that was asked for.
  void run(const std::vector<Tensor>& batch);
  /// Begins anew: what the step does on the host (a module's mode, its tensors) may have changed.
  void forget() {
    graph_ = Graph();
    batch_.clear();
    ran_ = false;
  }
  void set_replay(std::optional<bool> replay);

  /// Whether further steps are replays, as far as one knows.
  bool replays() const { return replays_; }
  /// The error of a capture that was given up; empty where there was none.
  const std::string& why_not() const { return why_not_; }

 private:
  Device device_;
  std::optional<bool> asked_;
  std::function<void(const std::vector<Tensor>& batch)> compute_;
  bool replays_;
  Graph graph_;                // one step on batch_
  std::vector<Tensor> batch_;  // on the device; what the graph reads
  bool ran_ = false;           // a first step, as it is; its batch may be empty
  std::string why_not_;
};

}  // namespace ashlar::nn

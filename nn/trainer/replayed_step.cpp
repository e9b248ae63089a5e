#include "nn/trainer/replayed_step.h"

#include <algorithm>
#include <utility>

#include "autograd/anomaly_mode.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

ReplayedStep::ReplayedStep(Device device, std::optional<bool> replay,
                           std::function<void(const std::vector<Tensor>& batch)> compute)
    : device_(device), compute_(std::move(compute)) {
  set_replay(replay);
}

void ReplayedStep::set_replay(std::optional<bool> replay) {
  asked_ = replay;
  replays_ = replay.value_or(device_.kind == DeviceKind::cuda);
  why_not_.clear();
}

void ReplayedStep::run(const std::vector<Tensor>& batch) {
  const auto fits = [&] {
    return std::ranges::equal(batch_, batch, [](const Tensor& a, const Tensor& b) {
      return a.shape() == b.shape() && a.dtype() == b.dtype();
    });
  };
  if (!replays_ || anomaly_mode() || !ran_ || !fits()) {
    std::vector<Tensor> here;
    for (const Tensor& part : batch) here.push_back(part.to(device_));
    compute_(here);
    // The graph's own tensors: the batch's may be somebody else's, where they were on the device already.
    if (replays_ && !ran_) {
      for (const Tensor& part : here) batch_.push_back(Tensor::empty(part.shape(), part.dtype(), device_));
      ran_ = true;
    }
    return;
  }
  for (size_t i = 0; i < batch.size(); i++) batch_[i].copy_(batch[i]);
  if (!graph_.defined()) {
    try {
      graph_ = capture(device_, [this] { compute_(batch_); });
    } catch (const GraphError& error) {
      if (asked_) throw;
      why_not_ = error.what();
      replays_ = false;
      return compute_(batch_);
    }
  }
  graph_.replay();
}

}  // namespace ashlar::nn

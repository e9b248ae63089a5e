// Sums of loss and hits, kept on the device.
#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

struct Scores {
  double loss = 0;      ///< mean over samples
  double accuracy = 0;  ///< fraction of samples whose largest logit is the label's
  int64_t samples = 0;
};

/// add() only queues work; read() waits and copies two numbers to the host. Sums are f32: exact counts up to 2^24.
class Meter {
 public:
  explicit Meter(Device device);
  void reset();
  /// One batch: its mean loss (one element), logits [batch, classes], labels i64 [batch].
  void add(const Tensor& mean_loss, const Tensor& logits, const Tensor& labels);
  Scores read() const;

  /// The two halves of add(), for a step that is captured once and replayed: what the device does, and what each call
  /// counts on the host.
  void add_on_device(const Tensor& mean_loss, const Tensor& logits, const Tensor& labels) const;
  void count(int64_t samples) { samples_ += samples; }

 private:
  Tensor loss_;
  Tensor hits_;
  int64_t samples_ = 0;
};

}  // namespace ashlar::nn

#include "nn/trainer/meter.h"

#include "ashlar/ops.h"

namespace ashlar::nn {

void Meter::reset() {
  loss_ = Tensor::zeros({}, DType::f32, device_);
  hits_ = Tensor::zeros({}, DType::f32, device_);
  samples_ = 0;
}

void Meter::add(const Tensor& mean_loss, const Tensor& logits, const Tensor& labels) {
  const int64_t count = labels.numel();
  const Tensor loss = mean_loss.to(DType::f32).reshape({});
  loss_ = ashlar::add(loss_, affine(loss, static_cast<double>(count), 0.0));
  // Class numbers are small: f32 holds them exactly.
  const Tensor predicted = argmax(logits, {-1}).to(DType::f32);
  hits_ = ashlar::add(hits_, sum(equal(predicted, labels.to(DType::f32))));
  samples_ += count;
}

Scores Meter::read() const {
  if (samples_ == 0) return {};
  const auto n = static_cast<double>(samples_);
  return {loss_.item() / n, hits_.item() / n, samples_};
}

}  // namespace ashlar::nn

#include "nn/trainer/meter.h"

#include "ashlar/ops.h"

namespace ashlar::nn {

Meter::Meter(Device device)
    : loss_(Tensor::zeros({}, DType::f32, device)), hits_(Tensor::zeros({}, DType::f32, device)) {}

void Meter::reset() {
  loss_.fill_(0);
  hits_.fill_(0);
  samples_ = 0;
}

void Meter::add(const Tensor& mean_loss, const Tensor& logits, const Tensor& labels) {
  add_on_device(mean_loss, logits, labels);
  count(labels.numel());
}

void Meter::add_on_device(const Tensor& mean_loss, const Tensor& logits, const Tensor& labels) const {
  const Tensor loss = mean_loss.to(DType::f32).reshape({});
  loss_.copy_(ashlar::add(loss_, affine(loss, static_cast<double>(labels.numel()), 0.0)));
  // Class numbers are small: f32 holds them exactly.
  const Tensor predicted = argmax(logits, {-1}).to(DType::f32);
  hits_.copy_(ashlar::add(hits_, sum(equal(predicted, labels.to(DType::f32)))));
}

Scores Meter::read() const {
  if (samples_ == 0) return {};
  const auto n = static_cast<double>(samples_);
  return {loss_.item() / n, hits_.item() / n, samples_};
}

}  // namespace ashlar::nn

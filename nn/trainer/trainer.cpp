#include "nn/trainer/trainer.h"

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "nn/loss.h"
#include "runtime/device/counters.h"

namespace ashlar::nn {
namespace {

constexpr int64_t kSetUpSteps = 3;  // arenas, modules and pools come to be in the first steps

Module& moved(Module& model, Device device) {
  model.to(device);
  return model;
}

}  // namespace

Trainer::Trainer(Module& model, std::function<Var(const Var&)> forward, Optimizer& optimizer, Device device,
                 const PixelStatistics& statistics, std::optional<DType> amp)
    : model_(moved(model, device)),
      forward_(std::move(forward)),
      optimizer_(optimizer),
      device_(device),
      precision_(optimizer, amp),
      scale_(1.0 / (255.0 * statistics.deviation)),
      shift_(-statistics.mean / statistics.deviation),
      meter_(device),
      replayed_(device, {}, [this](const std::vector<Tensor>& batch) { compute(batch[0], batch[1]); }) {}

Tensor Trainer::normalised(const Tensor& images) const { return affine(images.to(DType::f32), scale_, shift_); }

void Trainer::compute(const Tensor& images, const Tensor& labels) {
  optimizer_.zero_grad();
  Tensor logits;
  const Tensor loss = precision_.backward([&] {
    const Var answer = forward_(precision_.input(normalised(images))).to(DType::f32);
    logits = answer.value();
    return cross_entropy(answer, labels);
  });
  precision_.step();
  meter_.add_on_device(loss, logits, labels);
}

Scores Trainer::train(BatchLoader& data, uint64_t epoch, const Observer& observer) {
  model_.train();
  meter_.reset();
  replayed_.forget();  // between passes the model may have changed
  data.start(epoch);
  int64_t done = 0;
  while (const std::optional<Batch> batch = data.next()) {
    const Counters before = counters(device_.kind);
    meter_.count(batch->size());
    replayed_.run({batch->images, batch->labels});
    const Counters moved = counters(device_.kind) - before;
    if (++steps_ > kSetUpSteps) {
      transfers_.steps++;
      transfers_.batch_bytes += batch->images.bytes() + batch->labels.bytes();
      transfers_.bytes_in += moved.bytes_to_device;
      transfers_.bytes_out += moved.bytes_to_host;
      transfers_.allocations += moved.allocations;
    }
    done += batch->size();
    if (observer) observer(done);
  }
  return meter_.read();
}

Scores Trainer::evaluate(BatchLoader& data) {
  const NoGrad no_grad;
  model_.eval();
  meter_.reset();
  data.start(0);
  while (const std::optional<Batch> batch = data.next()) {
    const Tensor labels = batch->labels.to(device_);
    const Var logits = forward_(normalised(batch->images.to(device_)));
    meter_.add(cross_entropy(logits, labels).value(), logits.value(), labels);
  }
  return meter_.read();
}

}  // namespace ashlar::nn

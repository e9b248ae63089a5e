#include "nn/trainer/trainer.h"

#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "nn/loss.h"
#include "runtime/counters.h"

namespace ashlar::nn {
namespace {

constexpr int64_t kSetUpSteps = 3;  // arenas, modules and pools come to be in the first steps

}  // namespace

Trainer::Trainer(Module& model, Optimizer& optimizer, Device device, const PixelStatistics& statistics)
    : model_(model),
      optimizer_(optimizer),
      device_(device),
      scale_(1.0 / (255.0 * statistics.deviation)),
      shift_(-statistics.mean / statistics.deviation),
      meter_(device) {
  model_.to(device);
}

Trainer::DeviceBatch Trainer::move(const Batch& batch) const {
  return {affine(batch.images.to(device_).to(DType::f32), scale_, shift_), batch.labels.to(device_)};
}

void Trainer::step(const Batch& batch) {
  const DeviceBatch input = move(batch);
  const Var logits = model_(input.pixels);
  const Var loss = cross_entropy(logits, input.labels);
  optimizer_.zero_grad();
  backward(loss);
  optimizer_.step();
  meter_.add(loss.value(), logits.value(), input.labels);
}

Scores Trainer::train(BatchLoader& data, uint64_t epoch, const Observer& observer) {
  model_.train();
  meter_.reset();
  data.start(epoch);
  int64_t done = 0;
  while (const std::optional<Batch> batch = data.next()) {
    const Counters before = counters(device_.kind);
    step(*batch);
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
    const DeviceBatch input = move(*batch);
    const Var logits = model_(input.pixels);
    meter_.add(cross_entropy(logits, input.labels).value(), logits.value(), input.labels);
  }
  return meter_.read();
}

}  // namespace ashlar::nn

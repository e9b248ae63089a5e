// Shuffled epochs of a data set on a device, which a training step draws itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/data/batch_source.h"
#include "nn/data/device_dataset.h"

namespace ashlar::nn {

/// A DeviceDataset for fit() and HybridTrainer: each step begins by drawing its batch on the device, so that replays of
/// a captured one go on with the next, and nothing is copied from the host. An interrupted training goes on in the
/// middle of an epoch.
///
///   nn::DeviceBatches data({images, labels}, {.batch = 128, .seed = 1, .device = device});
///   const auto loss = [&](const std::vector<Tensor>& batch) {
///     return nn::cross_entropy(model(augment(batch[0], data.random())), batch[1]);
///   };
///   nn::fit({model, optimizer, data, loss}, {.epochs = 10});
class DeviceBatches : public BatchSource {
 public:
  /// Throws as DeviceDataset.
  DeviceBatches(const std::vector<Tensor>& tensors, const DeviceDatasetOptions& options)
      : data_(tensors, options), position_(data_.batches()) {}

  /// Throws as DeviceDataset::start().
  void start(uint64_t epoch, int64_t first = 0) override {
    data_.start(epoch, first);
    position_ = first;
  }
  std::optional<std::vector<Tensor>> next() override {
    if (position_ == batches()) return std::nullopt;
    position_++;
    return std::vector<Tensor>();
  }
  int64_t batches() const override { return data_.batches(); }
  int64_t position() const override { return position_; }
  int64_t drawn_samples() const override { return data_.batch(); }
  std::vector<Tensor> draw() override { return data_.next(); }

  int64_t size() const { return data_.size(); }
  /// As DeviceDataset::random().
  const Tensor& random() const { return data_.random(); }

 private:
  DeviceDataset data_;
  int64_t position_;  // at the end until start()
};

}  // namespace ashlar::nn

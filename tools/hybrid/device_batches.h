// Shuffled epochs that a training step draws itself.
#pragma once

#include "nn/data/batch_source.h"
#include "nn/data/device_dataset.h"

namespace ashlar::tools {

/// A DeviceDataset for fit() and HybridTrainer, drawn within the step, on the device: next() only counts and gives
/// empty batches, and the loss asks draw() for its own.
class DeviceBatches : public nn::BatchSource {
 public:
  /// Throws as DeviceDataset.
  DeviceBatches(const std::vector<Tensor>& tensors, const nn::DeviceDatasetOptions& options)
      : data_(tensors, options), position_(data_.batches()) {}

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

  std::vector<Tensor> draw() { return data_.next(); }
  /// As DeviceDataset::random().
  const Tensor& random() const { return data_.random(); }

 private:
  nn::DeviceDataset data_;
  int64_t position_;  // at the end until start()
};

}  // namespace ashlar::tools

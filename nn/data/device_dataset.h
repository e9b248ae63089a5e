// A data set that lies on a device, and what is drawn from it there.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

struct DeviceDatasetOptions {
  int64_t batch = 1;
  bool shuffle = true;
  uint64_t seed = 0;
  Device device = {};
};

/// Rows of tensors on a device. next() only works there: a training step that begins with it may be captured into a
/// graph, and each replay goes on with the next batch. What comes depends on seed, epoch and position alone, on every
/// device alike.
class DeviceDataset {
 public:
  /// Moves the tensors to the device. Throws ValueError without a tensor or with a batch below 1 or above their size,
  /// ShapeError unless all have the same size(0), DeviceError, OutOfMemory.
  DeviceDataset(const std::vector<Tensor>& tensors, const DeviceDatasetOptions& options);

  int64_t size() const { return tensors_[0].size(0); }
  int64_t batch() const { return options_.batch; }
  /// Of an epoch: whole ones only, since a replay's shapes are fixed.
  int64_t batches() const { return size() / options_.batch; }

  /// Begins epoch number `epoch` at its batch number `first`: where an interrupted training was. Draws the order on the
  /// device. Not for captures. Throws ValueError unless 0 ≤ first ≤ batches().
  void start(uint64_t epoch, int64_t first = 0);
  /// The next `batch` samples of each tensor. Who asks more often than batches() gets what is left and the order again
  /// from its beginning.
  std::vector<Tensor> next();
  /// The same as numbers of samples, i64 [batch] on the device, and the samples of each tensor that have such numbers:
  /// next() gives at(next_rows()). For who chooses otherwise at times.
  Tensor next_rows();
  std::vector<Tensor> at(const Tensor& rows) const;
  /// State of the numbers by chance that belong to the batch that next() gave (runtime/random/philox.h), for
  /// RandomCropFlip and the like.
  const Tensor& random() const { return random_; }

 private:
  DeviceDatasetOptions options_;
  std::vector<Tensor> tensors_;
  Tensor order_;   // i64 [n]
  Tensor places_;  // i64 [batch]: of the next batch in the order
  Tensor random_;  // i64 [2]
};

struct RandomCropFlipOptions {
  int64_t height = 0, width = 0;  ///< of the crop
  int64_t padding = 0;            ///< zeros on all four sides of the image before
  double flip = 0;                ///< probability that left and right change places
};

/// Crops and flips images on their device, each from a place and with a side drawn for it, all places as likely. Made
/// of operators that copy nothing from or to the host, so that a captured step may begin with it:
///   const std::vector<Tensor> batch = data.next();
///   const Tensor images = augment(batch[0], data.random());
class RandomCropFlip {
 public:
  /// Throws ValueError unless the sizes are positive, the padding isn't negative and the probability one.
  explicit RandomCropFlip(const RandomCropFlipOptions& options, Device device = {});

  /// [n, c, h, w] to [n, c, height, width], of any dtype but bool. Goes on in the stream of numbers `random`. Throws
  /// ShapeError on another rank or images, with their padding, smaller than the crop; DeviceError, DTypeError.
  Tensor operator()(const Tensor& images, const Tensor& random) const;

 private:
  RandomCropFlipOptions options_;
  Tensor rows_, columns_, turned_columns_;  // i64 [1, height, 1], [1, 1, width] and this backwards
};

}  // namespace ashlar::nn

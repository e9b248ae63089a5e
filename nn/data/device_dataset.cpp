#include "nn/data/device_dataset.h"

#include <algorithm>
#include <string>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "nn/data/dataset.h"
#include "nn/data/host_memory.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "DeviceDataset";
constexpr const char* kCrop = "RandomCropFlip";
constexpr int64_t kBlocksPerSample = int64_t{1} << 20;  // of four numbers, before those of the next sample begin

int64_t seed_of(const Dataset::Draw& draw, int64_t purpose) { return static_cast<int64_t>(draw.of(purpose).seed()); }

}  // namespace

DeviceDataset::DeviceDataset(const std::vector<Tensor>& tensors, const DeviceDatasetOptions& options)
    : options_(options) {
  if (tensors.empty()) throw ValueError(kName, "no tensors", "at least one", "Pass inputs and targets");
  for (const Tensor& tensor : tensors) {
    if (tensor.rank() == 0 || tensor.size(0) != tensors[0].size(0)) {
      throw ShapeError(kName, tensors[0].str() + " and " + tensor.str(), "equal sizes of axis 0",
                       "Axis 0 counts the samples");
    }
  }
  if (options.batch < 1 || options.batch > tensors[0].size(0)) {
    throw ValueError(kName, "a batch of " + std::to_string(options.batch),
                     "1 to " + std::to_string(tensors[0].size(0)) + ", the number of samples", "Take a smaller batch");
  }
  with_host_memory(kName, "a list of tensors", [&] {
    for (const Tensor& tensor : tensors) tensors_.push_back(tensor.to(options.device).contiguous());
  });
  order_ = Tensor::arange(size(), DType::i64, options.device);
  places_ = Tensor::arange(options.batch, DType::i64, options.device);
  random_ = philox_state(0, options.device);
  start(0);
}

void DeviceDataset::start(uint64_t epoch, int64_t first) {
  if (first < 0 || first > batches()) {
    throw ValueError(kName, "batch " + std::to_string(first), "0 to " + std::to_string(batches()),
                     "Start where an epoch of the same data was interrupted");
  }
  const Dataset::Draw draw(options_.seed, epoch);
  if (options_.shuffle) {
    const Tensor state = philox_state(seed_of(draw, -1), options_.device);
    order_.copy_(randperm(state, size()));
  }
  const int64_t begin = first * options_.batch;
  places_.copy_(Tensor::arange(begin, begin + options_.batch, 1, DType::i64, options_.device));
  random_.copy_(philox_state(seed_of(draw, -2), options_.device));
}

std::vector<Tensor> DeviceDataset::next() { return at(next_rows()); }

Tensor DeviceDataset::next_rows() {
  return with_host_memory(kName, "a batch", [&] {
    // Where the numbers of this batch begin depends on its place alone, whatever the last one used.
    random_.slice(0, 1).copy_(places_.slice(0, 0, 1) * kBlocksPerSample);
    const Tensor rows = index_select(order_, remainder(places_, Tensor::full({}, size(), DType::i64, options_.device)));
    places_ += options_.batch;
    return rows;
  });
}

std::vector<Tensor> DeviceDataset::at(const Tensor& rows) const {
  return with_host_memory(kName, "a batch", [&] {
    std::vector<Tensor> batch;
    for (const Tensor& tensor : tensors_) batch.push_back(index_select(tensor, rows));
    return batch;
  });
}

RandomCropFlip::RandomCropFlip(const RandomCropFlipOptions& options, Device device) : options_(options) {
  if (options.height < 1 || options.width < 1 || options.padding < 0 || !(options.flip >= 0 && options.flip <= 1)) {
    throw ValueError(kCrop,
                     std::to_string(options.height) + "×" + std::to_string(options.width) + ", padding " +
                         std::to_string(options.padding) + ", flip " + std::to_string(options.flip),
                     "positive sizes, a padding of 0 or more, a probability from 0 to 1",
                     "{.height = 32, .width = 32, .padding = 4, .flip = 0.5} is usual for CIFAR");
  }
  rows_ = Tensor::arange(options.height, DType::i64, device).reshape({1, -1, 1});
  columns_ = Tensor::arange(options.width, DType::i64, device).reshape({1, 1, -1});
  turned_columns_ = columns_.flip(2).contiguous();
}

// crop[b, c, y, x] = padded[b, c, top[b] + y, left[b] + x'], x' = x or width - 1 - x
Tensor RandomCropFlip::operator()(const Tensor& images, const Tensor& random) const {
  check_philox_state(kCrop, random);
  const auto& [height, width, padding, flip] = options_;
  if (images.rank() != 4 || images.size(2) + 2 * padding < height || images.size(3) + 2 * padding < width) {
    throw ShapeError(kCrop, images.str() + " with padding " + std::to_string(padding),
                     "[n, c, h, w] of at least " + std::to_string(height) + "×" + std::to_string(width),
                     "Ask for a smaller crop or more padding");
  }
  const Tensor padded = padding == 0 ? images : pad(images, {padding, padding, padding, padding});
  const int64_t count = images.size(0), channels = images.size(1), across = padded.size(3);
  const auto draw_below = [&](int64_t end) { return randint(random, 0, end, {count, 1, 1}); };
  const Tensor top = draw_below(padded.size(2) - height + 1), left = draw_below(across - width + 1);
  Tensor columns = columns_;
  if (flip > 0) {
    const Tensor chance = uniform(random, 0, 1, {count, 1, 1});
    columns = where(lt(chance, Tensor::full({}, flip, DType::f32, images.device())), turned_columns_, columns_);
  }
  const Tensor index = (top + rows_) * across + (left + columns);  // [n, height, width]
  return take_along(padded.reshape({count, channels, -1}), index.reshape({count, 1, -1}), 2)
      .reshape({count, channels, height, width});
}

}  // namespace ashlar::nn

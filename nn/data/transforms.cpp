#include "nn/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "nn/data/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

const uint8_t* bytes_of(const Tensor& tensor) { return static_cast<const uint8_t*>(tensor.data()); }

void check_randoms(const char* operation, const Tensor& samples, std::span<Random> randoms) {
  if (samples.rank() > 0 && samples.size(0) == static_cast<int64_t>(randoms.size())) return;
  throw ShapeError(operation, samples.str() + " and " + std::to_string(randoms.size()) + " sources of chance",
                   "one for each sample along axis 0", "Call transforms through a TransformedDataset");
}

/// Width and height, or the width alone, are the last axes.
void check_rank(const char* operation, const Tensor& samples, int least) {
  if (samples.rank() >= least) return;
  throw ShapeError(operation, samples.str(), "at least " + std::to_string(least) + " axes, samples first",
                   "Pass images [n, c, h, w] or [n, h, w]");
}

template <class T>
void set_ones(const Tensor& classes, int64_t count, float* to) {
  const auto* from = static_cast<const T*>(classes.data());
  for (int64_t i = 0; i < classes.numel(); i++, to += count) {
    const auto number = static_cast<int64_t>(from[i]);
    if (number < 0 || number >= count) {
      throw IndexError("OneHot", "the class " + std::to_string(number), "0 to " + std::to_string(count - 1),
                       "Give the number of classes that the labels have");
    }
    to[number] = 1;
  }
}

}  // namespace

Tensor ToDtype::operator()(const Tensor& samples, std::span<Random> /*randoms*/) const {
  if (!scale) return samples.to(dtype);
  if (samples.dtype() != DType::u8 || dtype != DType::f32) {
    throw DTypeError("ToDtype", samples.str() + " to scale to " + std::string(name_of(dtype)), "u8 to scale to f32",
                     "Leave the scale out, and divide by a number of your own");
  }
  const Tensor from = samples.contiguous();
  Tensor result = Tensor::empty(from.shape(), DType::f32);
  std::transform(bytes_of(from), bytes_of(from) + from.numel(), static_cast<float*>(result.data()),
                 [](uint8_t x) { return static_cast<float>(x) / 255.0F; });
  return result;
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> std) {
  const bool is_valid = std::ranges::none_of(std, [](double s) { return s == 0 || !std::isfinite(1 / s); });
  if (mean.empty() || mean.size() != std.size() || !is_valid) {
    throw ValueError("Normalize", std::to_string(mean.size()) + " means, " + std::to_string(std.size()) + " stds",
                     "one of each per channel, and no std of 0", "Compute both over the training data");
  }
  for (const double m : mean) mean_.push_back(static_cast<float>(m));
  for (const double s : std) scale_.push_back(static_cast<float>(1 / s));
}

Tensor Normalize::operator()(const Tensor& samples, std::span<Random> /*randoms*/) const {
  if (samples.dtype() != DType::f32) {
    throw DTypeError("Normalize", samples.str(), "f32", "Put ToDtype{.scale = true} before it");
  }
  const auto channels = static_cast<int64_t>(mean_.size());
  const bool is_per_channel = channels > 1;
  if (samples.rank() < 1 || (is_per_channel && (samples.rank() < 2 || samples.size(1) != channels))) {
    throw ShapeError("Normalize", samples.str(), "[n, " + std::to_string(channels) + ", …]",
                     "Give a mean and a std for each channel, or one for all");
  }
  const Tensor from = samples.contiguous();
  const Tensor result = Tensor::empty(from.shape(), DType::f32);
  const int64_t rows = is_per_channel ? samples.size(0) * channels : 1;
  const int64_t row = rows == 0 ? 0 : from.numel() / rows;
  const auto* x = static_cast<const float*>(from.data());
  auto* y = static_cast<float*>(result.data());
  for (int64_t i = 0; i < rows; i++) {
    const auto channel = static_cast<size_t>(i % channels);
    const float mean = mean_[channel], scale = scale_[channel];
    for (int64_t k = 0; k < row; k++) *y++ = (*x++ - mean) * scale;
  }
  return result;
}

RandomCrop::RandomCrop(int64_t height, int64_t width, int64_t padding)
    : height_(height), width_(width), padding_(padding) {
  if (height < 1 || width < 1 || padding < 0 || padding > INT32_MAX) {
    throw ValueError("RandomCrop",
                     std::to_string(height) + "×" + std::to_string(width) + ", padding " + std::to_string(padding),
                     "positive sizes, no negative padding", "RandomCrop(32, 32, 4) is usual for CIFAR");
  }
}

Tensor RandomCrop::operator()(const Tensor& samples, std::span<Random> randoms) const {
  check_randoms("RandomCrop", samples, randoms);
  check_rank("RandomCrop", samples, 3);
  const int64_t height = samples.size(-2), width = samples.size(-1);
  const int64_t spare_rows = height + 2 * padding_ - height_, spare_columns = width + 2 * padding_ - width_;
  if (spare_rows < 0 || spare_columns < 0) {
    throw ShapeError("RandomCrop", samples.str() + " with padding " + std::to_string(padding_),
                     "images of at least " + std::to_string(height_) + "×" + std::to_string(width_),
                     "Ask for a smaller crop or more padding");
  }
  Shape shape = samples.shape();
  shape[shape.rank() - 2] = height_;
  shape[shape.rank() - 1] = width_;
  const Tensor from = samples.contiguous(), result = Tensor::zeros(shape, samples.dtype());
  if (from.numel() == 0) return result;
  const auto element = static_cast<size_t>(size_of(samples.dtype()));
  const int64_t planes = from.numel() / (samples.size(0) * height * width);
  auto* to = static_cast<uint8_t*>(result.data());
  const uint8_t* source = bytes_of(from);
  for (Random& random : randoms) {
    // Of the crop's corner in the image; beyond its edges lies the padding.
    const int64_t top = static_cast<int64_t>(random.below(static_cast<uint64_t>(spare_rows) + 1)) - padding_;
    const int64_t left = static_cast<int64_t>(random.below(static_cast<uint64_t>(spare_columns) + 1)) - padding_;
    const int64_t first = std::max<int64_t>(left, 0), last = std::min(left + width_, width);
    for (int64_t plane = 0; plane < planes; plane++, source += static_cast<size_t>(height * width) * element) {
      for (int64_t y = 0; y < height_; y++, to += static_cast<size_t>(width_) * element) {
        if (top + y < 0 || top + y >= height || first >= last) continue;
        std::memcpy(to + static_cast<size_t>(first - left) * element,
                    source + static_cast<size_t>((top + y) * width + first) * element,
                    static_cast<size_t>(last - first) * element);
      }
    }
  }
  return result;
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(static_cast<float>(p)) {
  if (p >= 0 && p <= 1) return;
  throw ValueError("RandomHorizontalFlip", "p = " + std::to_string(p), "a probability from 0 to 1", "0.5 is usual");
}

Tensor RandomHorizontalFlip::operator()(const Tensor& samples, std::span<Random> randoms) const {
  check_randoms("RandomHorizontalFlip", samples, randoms);
  check_rank("RandomHorizontalFlip", samples, 2);
  const Tensor result = samples.clone();
  if (result.numel() == 0) return result;
  const auto element = static_cast<size_t>(size_of(samples.dtype()));
  const size_t row = static_cast<size_t>(samples.size(-1)) * element;
  const size_t sample = static_cast<size_t>(result.bytes() / samples.size(0));
  auto* at = static_cast<uint8_t*>(result.data());
  for (Random& random : randoms) {
    uint8_t* const end = at + sample;
    if (random.uniform() >= p_) at = end;
    for (; at != end; at += row) {
      // All bytes backwards, and those of each element forwards again.
      std::reverse(at, at + row);
      for (uint8_t* one = at; element > 1 && one != at + row; one += element) std::reverse(one, one + element);
    }
  }
  return result;
}

OneHot::OneHot(int64_t classes) : classes_(classes) {
  if (classes >= 1) return;
  throw ValueError("OneHot", std::to_string(classes) + " classes", "at least one", "Give the number of classes");
}

Tensor OneHot::operator()(const Tensor& samples, std::span<Random> /*randoms*/) const {
  const Tensor from = samples.contiguous();
  Shape shape = from.shape();
  shape.push_back(classes_);
  const Tensor result = Tensor::zeros(shape, DType::f32);
  auto* to = static_cast<float*>(result.data());
  switch (from.dtype()) {
    case DType::u8:
      set_ones<uint8_t>(from, classes_, to);
      return result;
    case DType::i32:
      set_ones<int32_t>(from, classes_, to);
      return result;
    case DType::i64:
      set_ones<int64_t>(from, classes_, to);
      return result;
    default:
      throw DTypeError("OneHot", samples.str(), "u8, i32 or i64", "Convert the labels with to(DType::i64)");
  }
}

TransformedDataset::TransformedDataset(const Dataset& data, std::vector<std::vector<Transform>> transforms)
    : data_(data), transforms_(std::move(transforms)) {}

std::vector<Tensor> TransformedDataset::batch(std::span<const int64_t> indices, const Draw& draw) const {
  return with_host_memory("TransformedDataset", "a batch", [&] {
    std::vector<Tensor> parts = data_.batch(indices, draw.inner());
    if (transforms_.size() > parts.size()) {
      throw ShapeError("TransformedDataset", "transforms of " + std::to_string(transforms_.size()) + " parts",
                       "at most " + std::to_string(parts.size()) + ", as the data set has",
                       "Give a list of transforms for each part");
    }
    std::vector<Random> randoms;
    for (const int64_t index : indices) randoms.push_back(draw.of(index));
    for (size_t part = 0; part < transforms_.size(); part++) {
      for (const Transform& transform : transforms_[part]) parts[part] = transform(parts[part], randoms);
    }
    return parts;
  });
}

}  // namespace ashlar::nn

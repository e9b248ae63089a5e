#include "nn/data/labeled_images.h"

#include <array>
#include <cmath>
#include <span>

namespace ashlar::nn {

int64_t LabeledImages::pixels() const {
  int64_t count = 1;
  for (int axis = 1; axis < images.rank(); axis++) count *= images.size(axis);
  return count;
}

PixelStatistics pixel_statistics(const LabeledImages& data) {
  const Tensor images = data.images.contiguous();
  const std::span pixels(static_cast<const uint8_t*>(images.data()), static_cast<size_t>(images.numel()));
  std::array<int64_t, 256> histogram{};
  for (const uint8_t pixel : pixels) histogram[pixel]++;
  double sum = 0, sum_of_squares = 0, count = 0;
  for (size_t value = 0; value < histogram.size(); value++) {
    const double x = static_cast<double>(value) / 255.0, n = static_cast<double>(histogram[value]);
    count += n;
    sum += n * x;
    sum_of_squares += n * x * x;
  }
  if (count == 0) return {};
  const double mean = sum / count, variance = sum_of_squares / count - mean * mean;
  return {mean, variance > 1e-12 ? std::sqrt(variance) : 1.0};
}

}  // namespace ashlar::nn

// Labelled images in memory.
#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// On the CPU: images u8 [n, height, width] or [n, channels, height, width], labels u8 [n].
struct LabeledImages {
  Tensor images;
  Tensor labels;
  int64_t size() const { return images.size(0); }
  /// Numbers of an image: of all its channels.
  int64_t pixels() const;
};

struct ImageDataset {
  LabeledImages train;
  LabeledImages test;
  int64_t classes = 0;
};

/// Mean and standard deviation of all pixels, each pixel as a number in [0, 1].
struct PixelStatistics {
  double mean = 0;
  double deviation = 1;  ///< 1 where all pixels are equal
};
PixelStatistics pixel_statistics(const LabeledImages& data);

}  // namespace ashlar::nn

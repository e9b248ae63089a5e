// Labelled images in memory, and the folder format of MNIST.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// On the CPU: images u8 [n, height, width], labels u8 [n].
struct LabeledImages {
  Tensor images;
  Tensor labels;
  int64_t size() const { return images.size(0); }
  int64_t pixels() const { return images.size(1) * images.size(2); }
};

struct ImageDataset {
  LabeledImages train;
  LabeledImages test;
  int64_t classes = 0;  ///< one more than the largest training label
};

/// Mean and standard deviation of all pixels, each pixel as a number in [0, 1].
struct PixelStatistics {
  double mean = 0;
  double deviation = 1;  ///< 1 where all pixels are equal
};
PixelStatistics pixel_statistics(const LabeledImages& data);

/// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each
/// with or without ".gz". Throws DataError when a file is missing, damaged, or doesn't fit the others: type, rank,
/// counts, image sizes, a test label that no training image has.
ImageDataset read_mnist_folder(const std::filesystem::path& folder);

}  // namespace ashlar::nn

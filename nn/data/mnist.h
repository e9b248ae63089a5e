// The folder format of MNIST.
#pragma once

#include <filesystem>

#include "nn/data/labeled_images.h"

namespace ashlar::nn {

/// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each
/// with or without ".gz". There is one class more than the largest training label. Throws DataError when a file is
/// missing, damaged, or doesn't fit the others: type, rank, counts, image sizes, a test label that no training image
/// has.
ImageDataset read_mnist_folder(const std::filesystem::path& folder);

}  // namespace ashlar::nn

#include "nn/data/mnist.h"

#include <algorithm>
#include <span>
#include <string>

#include "nn/data/idx.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "read_mnist_folder";

Tensor read_member(const std::filesystem::path& folder, const std::string& stem, int rank) {
  for (const char* suffix : {"", ".gz"}) {
    const std::filesystem::path file = folder / (stem + suffix);
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(file, ignored)) continue;
    Tensor tensor = read_idx(file);
    if (tensor.dtype() == DType::u8 && tensor.rank() == rank) return tensor;
    throw DataError(kName, file.string() + " with a tensor " + tensor.str(), "u8 of rank " + std::to_string(rank),
                    "Pass a folder in MNIST's format");
  }
  throw DataError(kName, folder.string() + " without " + stem + "[.gz]", "the four files of MNIST's format",
                  "Install dataset-fashion-mnist, or give a folder with the four files");
}

std::span<const uint8_t> bytes_of(const Tensor& tensor) {
  return {static_cast<const uint8_t*>(tensor.data()), static_cast<size_t>(tensor.numel())};
}

LabeledImages read_part(const std::filesystem::path& folder, const std::string& prefix) {
  LabeledImages part{read_member(folder, prefix + "-images-idx3-ubyte", 3),
                     read_member(folder, prefix + "-labels-idx1-ubyte", 1)};
  const std::string where = folder.string() + "/" + prefix;
  if (part.images.numel() == 0) {
    throw DataError(kName, where + " with images " + part.images.str(), "at least one pixel", "Check the files");
  }
  if (part.labels.size(0) != part.size()) {
    throw DataError(kName,
                    where + " with " + std::to_string(part.size()) + " images and " +
                        std::to_string(part.labels.size(0)) + " labels",
                    "as many labels as images", "Take both files from one data set");
  }
  return part;
}

int64_t largest_label(const LabeledImages& part) { return *std::ranges::max_element(bytes_of(part.labels)); }

}  // namespace

ImageDataset read_mnist_folder(const std::filesystem::path& folder) {
  ImageDataset data{read_part(folder, "train"), read_part(folder, "t10k")};
  if (data.train.images.size(1) != data.test.images.size(1) || data.train.images.size(2) != data.test.images.size(2)) {
    throw DataError(kName, "training images " + data.train.images.str() + ", test images " + data.test.images.str(),
                    "one image size", "Take all four files from one data set");
  }
  data.classes = largest_label(data.train) + 1;
  if (largest_label(data.test) >= data.classes) {
    throw DataError(kName, "a test label " + std::to_string(largest_label(data.test)),
                    "labels below " + std::to_string(data.classes) + ", as in training",
                    "Take all four files from one data set");
  }
  return data;
}

}  // namespace ashlar::nn

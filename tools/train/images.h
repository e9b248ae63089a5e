// Images of a folder in MNIST's format, as the programs that see them as images want them.
#pragma once

#include <cstdint>
#include <string>

#include "nn/data/data_loader.h"
#include "nn/data/mnist.h"

namespace ashlar::tools::train {

struct Images {
  /// Throws as nn::read_mnist_folder().
  explicit Images(const std::string& folder);

  int64_t height() const { return data.train.images.size(1); }
  int64_t width() const { return data.train.images.size(2); }
  int64_t pixels() const { return data.train.pixels(); }
  /// "60000 training and 10000 test images, 10 classes"
  std::string description() const;
  /// Of all test images one part after the other: part(images u8 [n, 1, height, width], labels i64 [n]), on the CPU.
  template <class Part>
  void for_test_parts(Part part) const {
    constexpr int64_t kRows = 1000;
    for (int64_t at = 0; at < data.test.size(); at += kRows) {
      const int64_t end = std::min(at + kRows, data.test.size());
      part(with_channel(data.test.images).slice(0, at, end), test_labels.slice(0, at, end));
    }
  }

  nn::ImageDataset data;
  Tensor test_labels;          ///< i64
  nn::TensorDataset training;  ///< images u8 [n, 1, height, width], labels i64 [n]

 private:
  static Tensor with_channel(const Tensor& images) { return images.unsqueeze(1); }
};

}  // namespace ashlar::tools::train

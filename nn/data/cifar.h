// CIFAR-10 and CIFAR-100 in their binary version (https://www.cs.toronto.edu/~kriz/cifar.html): records of one or two
// label bytes and 3072 pixels, the red, green and blue plane of 32×32 after one another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "nn/data/labeled_images.h"

namespace ashlar::nn {

enum class Cifar {
  ten,               ///< 10 classes, 1 label byte
  hundred,           ///< 100 classes: the second of 2 label bytes
  hundred_in_twenty  ///< the same images in 20 groups of classes: the first of 2 label bytes
};

/// Images u8 [n, 3, 32, 32] and labels u8 [n] of one file. Throws DataError when it can't be read, isn't made of whole
/// records, or has a label that its kind has not; OutOfMemory.
LabeledImages read_cifar(const std::filesystem::path& file, Cifar kind);
/// The same from memory; `name` stands in messages.
LabeledImages parse_cifar(std::span<const uint8_t> bytes, Cifar kind, const std::string& name);

/// The folder of the published archive, unpacked: data_batch_1.bin to data_batch_5.bin and test_batch.bin, or for
/// CIFAR-100 train.bin and test.bin. Throws as read_cifar().
ImageDataset read_cifar_folder(const std::filesystem::path& folder, Cifar kind);

}  // namespace ashlar::nn

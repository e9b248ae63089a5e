// Folders of images, one for each class.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nn/data/dataset.h"

namespace ashlar::nn {

/// The image in a PNG or JPEG file, told apart by its first bytes: u8 [h, w] when it is grey, else u8 [h, w, 3]. Throws
/// as read_png() and read_jpeg().
Tensor read_image(const std::filesystem::path& file);

struct ImageFolderOptions {
  int64_t channels = 3;  ///< 3: grey images are repeated; 1: colours become their luma (ITU-R BT.601)
  /// Height and width: each image is cropped to its middle. Without it all must have the size of the first.
  std::optional<std::array<int64_t, 2>> crop = {};
};

/// As torchvision's: ROOT/CLASS/…/NAME.png or .jpg or .jpeg. Classes are the names of the folders in ascending order of
/// bytes; images come class by class, in ascending order of their paths. A batch is u8 [batch, channels, h, w] and
/// labels i64 [batch], decoded by the thread that asks.
class ImageFolder : public Dataset {
 public:
  /// Looks through the folders, and into the first image for the size. Throws DataError when a folder can't be read,
  /// has no image, or there is none; ValueError unless channels is 1 or 3 and the crop positive.
  explicit ImageFolder(const std::filesystem::path& root, const ImageFolderOptions& options = {});

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<std::string>& classes() const { return classes_; }
  const std::filesystem::path& file(int64_t index) const { return files_.at(static_cast<size_t>(index)); }
  /// Throws DataError naming the file when an image can't be read, has another size or is smaller than the crop.
  std::vector<Tensor> batch(std::span<const int64_t> indices, const Draw& draw) const override;

 private:
  void decode(int64_t index, uint8_t* to) const;

  std::vector<std::string> classes_;
  std::vector<std::filesystem::path> files_;
  std::vector<int64_t> labels_;
  int64_t channels_;
  bool crops_;
  int64_t height_ = 0, width_ = 0;
};

}  // namespace ashlar::nn

#include "nn/data/image_folder.h"

#include <algorithm>
#include <string_view>

#include "nn/data/file.h"
#include "nn/data/host_memory.h"
#include "nn/data/jpeg.h"
#include "nn/data/png.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

using std::filesystem::path;

constexpr const char* kName = "ImageFolder";

bool is_image(const path& file) {
  std::string extension = file.extension().string();
  for (char& c : extension) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

/// Those for which `wanted` holds, sorted; beneath sub-folders too with std::filesystem::recursive_directory_iterator.
template <class Iterator, class Wanted>
std::vector<path> entries_of(const path& folder, Wanted wanted) {
  std::vector<path> found;
  std::error_code failure;
  for (Iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    const bool is_hidden = entry->path().filename().native().starts_with('.');
    if (!is_hidden && wanted(*entry)) found.push_back(entry->path());
  }
  if (failure) {
    throw DataError(kName, folder.string() + ": " + failure.message(), "a folder that can be read",
                    "Pass a folder with a sub-folder for each class");
  }
  std::ranges::sort(found, {}, [](const path& p) -> const std::string& { return p.native(); });
  return found;
}

/// Luma of 8 bits, in 16-bit fixed point.
uint8_t luma(const uint8_t* rgb) {
  constexpr uint32_t kRed = 19595, kGreen = 38470, kBlue = 7471;  // 0.299, 0.587 and 0.114 of 2^16
  return static_cast<uint8_t>((kRed * rgb[0] + kGreen * rgb[1] + kBlue * rgb[2] + (1U << 15)) >> 16);
}

}  // namespace

Tensor read_image(const path& file) {
  constexpr uint8_t kPng = 0x89, kJpeg = 0xFF;
  const std::vector<uint8_t> bytes = read_file("read_image", file);
  if (!bytes.empty() && bytes[0] == kPng) return parse_png(bytes, file.string());
  if (!bytes.empty() && bytes[0] == kJpeg) return parse_jpeg(bytes, file.string());
  throw DataError("read_image", file.string() + ", whose first byte is neither's", "a PNG or JPEG image",
                  "Convert the image, or take it out of the folder");
}

ImageFolder::ImageFolder(const path& root, const ImageFolderOptions& options)
    : channels_(options.channels), crops_(options.crop.has_value()) {
  const auto [height, width] = options.crop.value_or(std::array<int64_t, 2>{1, 1});
  if ((channels_ != 1 && channels_ != 3) || height < 1 || width < 1) {
    throw ValueError(
        kName,
        std::to_string(channels_) + " channels, a crop of " + std::to_string(height) + "×" + std::to_string(width),
        "1 or 3 channels and positive sizes", "Start with {.channels = 3}");
  }
  with_host_memory(kName, root.string(), [&] {
    using std::filesystem::directory_entry;
    const auto folders = entries_of<std::filesystem::directory_iterator>(
        root, [](const directory_entry& entry) { return entry.is_directory(); });
    for (const path& folder : folders) {
      const auto files = entries_of<std::filesystem::recursive_directory_iterator>(
          folder, [](const directory_entry& entry) { return entry.is_regular_file() && is_image(entry.path()); });
      if (files.empty()) {
        throw DataError(kName, folder.string() + " without an image", "one at least in the folder of each class",
                        "Add images (.png, .jpg, .jpeg) or remove the folder");
      }
      labels_.insert(labels_.end(), files.size(), static_cast<int64_t>(classes_.size()));
      files_.insert(files_.end(), files.begin(), files.end());
      classes_.push_back(folder.filename().string());
    }
  });
  if (files_.empty()) {
    throw DataError(kName, root.string() + " without sub-folders", "a sub-folder with images for each class",
                    "Pass the folder above those of the classes");
  }
  const Tensor first = crops_ ? Tensor() : read_image(files_[0]);
  height_ = crops_ ? height : first.size(0);
  width_ = crops_ ? width : first.size(1);
}

std::vector<Tensor> ImageFolder::batch(std::span<const int64_t> indices, const Draw& /*draw*/) const {
  check_indices(kName, indices, size());
  const auto count = static_cast<int64_t>(indices.size());
  const Tensor images = Tensor::empty({count, channels_, height_, width_}, DType::u8);
  const Tensor labels = Tensor::empty({count}, DType::i64);
  for (int64_t i = 0; i < count; i++) {
    const int64_t index = indices[static_cast<size_t>(i)];
    decode(index, static_cast<uint8_t*>(images.data()) + i * channels_ * height_ * width_);
    static_cast<int64_t*>(labels.data())[i] = labels_[static_cast<size_t>(index)];
  }
  return {images, labels};
}

void ImageFolder::decode(int64_t index, uint8_t* to) const {
  const path& file = files_[static_cast<size_t>(index)];
  const Tensor image = read_image(file);
  const int64_t height = image.size(0), width = image.size(1);
  const bool fits = crops_ ? height >= height_ && width >= width_ : height == height_ && width == width_;
  if (!fits) {
    throw DataError(kName, file.string() + " of " + std::to_string(height) + "×" + std::to_string(width) + " pixels",
                    std::string(crops_ ? "at least " : "") + std::to_string(height_) + "×" + std::to_string(width_) +
                        (crops_ ? " for the crop" : ", as the first image has"),
                    crops_ ? "Ask for a smaller crop, or take the image out"
                           : "Crop all to one size with {.crop = {{h, w}}}, or scale the files");
  }
  const int64_t top = (height - height_) / 2, left = (width - width_) / 2, depth = image.rank() == 3 ? 3 : 1;
  const int64_t plane = height_ * width_;
  for (int64_t y = 0; y < height_; y++) {
    const uint8_t* row = static_cast<const uint8_t*>(image.data()) + ((top + y) * width + left) * depth;
    for (int64_t x = 0; x < width_; x++, row += depth, to++) {
      if (channels_ == 1) {
        *to = depth == 1 ? *row : luma(row);
      } else {
        for (int64_t c = 0; c < 3; c++) to[c * plane] = row[depth == 1 ? 0 : c];
      }
    }
  }
}

}  // namespace ashlar::nn

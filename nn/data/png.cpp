#include "nn/data/png.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "nn/data/file.h"
#include "nn/data/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kRead = "read_png";
constexpr const char* kWrite = "write_png";
constexpr uint64_t kMostDeflated = 1032;  // bytes that a deflated byte can become (RFC 1951: runs of 258 in 2 bits)

[[noreturn]] void damaged(const std::string& name, const std::string& came, const std::string& needed) {
  throw DataError(kRead, name + ": " + came, needed, "Check that the file is an undamaged PNG image");
}

/// Libpng's state, given back on every way out.
struct Image : png_image {
  Image() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~Image() { png_image_free(this); }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
};

Tensor parse(std::span<const uint8_t> bytes, const std::string& name) {
  Image image;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    damaged(name, image.message, "a PNG image");
  }
  const uint64_t height = image.height, width = image.width;
  const bool is_grey = (image.format & PNG_FORMAT_FLAG_COLOR) == 0;
  const uint64_t total = height * width * (is_grey ? 1 : 3);  // sizes are below 2³¹: no overflow
  // A row has a byte of its own and at least one bit per pixel.
  if (height * (1 + (width + 7) / 8) > kMostDeflated * bytes.size() || total > read_limit()) {
    damaged(
        name,
        std::to_string(height) + "×" + std::to_string(width) + " pixels in " + std::to_string(bytes.size()) + " bytes",
        "as many as the bytes can hold, and at most " + std::to_string(read_limit()) + " bytes of them");
  }
  const auto h = static_cast<int64_t>(height), w = static_cast<int64_t>(width);
  const Tensor result = Tensor::empty(is_grey ? Shape{h, w} : Shape{h, w, 3}, DType::u8);
  image.format = is_grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const png_color background{0, 0, 0};
  if (png_image_finish_read(&image, &background, result.data(), 0, nullptr) == 0) {
    damaged(name, image.message, "an undamaged PNG image");
  }
  return result;
}

Tensor as_bytes(const Tensor& image) {
  if (image.dtype() == DType::u8) return image.to(Device::cpu()).contiguous();
  if (!is_floating(image.dtype())) {
    throw DTypeError(kWrite, image.str(), "u8, or floats in [0, 1]", "Convert the image with to(DType::u8)");
  }
  const Tensor floats = image.to(Device::cpu()).to(DType::f32).contiguous();
  Tensor result = Tensor::empty(image.shape(), DType::u8);
  const auto* from = static_cast<const float*>(floats.data());
  std::transform(from, from + floats.numel(), static_cast<uint8_t*>(result.data()), [](float x) {
    return static_cast<uint8_t>(std::isnan(x) ? 0.0F : std::clamp(x, 0.0F, 1.0F) * 255.0F + 0.5F);
  });
  return result;
}

}  // namespace

Tensor parse_png(std::span<const uint8_t> bytes, const std::string& name) {
  return with_host_memory(kRead, name, [&] { return parse(bytes, name); });
}

Tensor read_png(const std::filesystem::path& file) { return parse_png(read_file(kRead, file), file.string()); }

void write_png(const std::filesystem::path& file, const Tensor& image) {
  const bool is_rgb = image.rank() == 3 && image.size(2) == 3;
  constexpr int64_t kMostBytes = int64_t{1} << 30, kLongestEdge = 1'000'000;  // libpng's limits
  if ((image.rank() != 2 && !is_rgb) || image.numel() == 0 || image.numel() > kMostBytes ||
      std::max(image.size(0), image.size(1)) > kLongestEdge) {
    throw ShapeError(kWrite, image.str(), "[h, w] or [h, w, 3], 1 to a million pixels along an edge, 2³⁰ numbers",
                     "Put channels last with permute({1, 2, 0}); image_grid() makes a sheet of many images");
  }
  with_host_memory(kWrite, file.string(), [&] {
    const Tensor pixels = as_bytes(image);
    Image header;
    header.height = static_cast<png_uint_32>(pixels.size(0));
    header.width = static_cast<png_uint_32>(pixels.size(1));
    header.format = is_rgb ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    png_alloc_size_t count = PNG_IMAGE_PNG_SIZE_MAX(header);
    std::vector<uint8_t> bytes(count);
    if (png_image_write_to_memory(&header, bytes.data(), &count, 0, pixels.data(), 0, nullptr) == 0) {
      throw WriteError(kWrite, file, header.message);
    }
    write_file_atomically(kWrite, file, {{bytes.data(), count}});
  });
}

}  // namespace ashlar::nn

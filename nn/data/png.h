// PNG images (ISO/IEC 15948), in and out, by libpng.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// The image in `file`, on the CPU: u8 [h, w] when it is grey, else u8 [h, w, 3] in sRGB. Whatever is behind
/// transparent pixels is black; samples of 16 bits become 8. Throws DataError when the file can't be read, is no whole
/// PNG, or claims more pixels than its bytes can hold or than read_limit() of nn/data/file.h; OutOfMemory.
Tensor read_png(const std::filesystem::path& file);
/// The same from memory; `name` stands in messages.
Tensor parse_png(std::span<const uint8_t> bytes, const std::string& name);

/// Writes `image`, [h, w] (grey) or [h, w, 3] (red, green, blue), of any device: u8 as it is, floats from [0, 1]
/// (numbers outside are moved to the nearest inside, NaN is black). A reader sees the old file or the new one, whole.
/// Throws ShapeError, DTypeError, and WriteError of nn/data/file.h.
void write_png(const std::filesystem::path& file, const Tensor& image);

}  // namespace ashlar::nn

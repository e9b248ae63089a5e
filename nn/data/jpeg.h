// JPEG images (ITU-T T.81), by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// The image in `file`, on the CPU: u8 [h, w] when it is grey, else u8 [h, w, 3]. Throws DataError when the file can't
/// be read, is damaged or cut off, has four colours or arithmetic coding, or claims more pixels than its bytes can hold
/// or than read_limit() of nn/data/file.h; OutOfMemory.
Tensor read_jpeg(const std::filesystem::path& file);
/// The same from memory; `name` stands in messages.
Tensor parse_jpeg(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace ashlar::nn

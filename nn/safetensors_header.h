// The JSON header of a safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/safetensors.h"

namespace ashlar::nn {

inline constexpr size_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the format's own limit

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t begin = 0, end = 0;  ///< bytes from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their bytes, which they cover without overlap or hole
  Metadata metadata;
};

/// `name` stands in messages. Time and memory are proportional to the text. Throws DataError where it breaks a rule of
/// the format or doesn't fit `data_bytes` bytes of data.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes, const std::string& name);

/// The header of a file with these tensors one after another. Throws ValueError as write_safetensors() does.
std::string safetensors_header_of(const std::vector<std::pair<std::string, Tensor>>& tensors, const Metadata& metadata);

[[noreturn]] void refuse_safetensors(const std::string& name, const std::string& came, const std::string& needed);

}  // namespace ashlar::nn

// Reader and writer of safetensors files (https://github.com/huggingface/safetensors): eight bytes of header length,
// a JSON header, then the tensors' bytes, little-endian and row-major.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

using Metadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  std::vector<std::pair<std::string, Tensor>> tensors;  ///< on the CPU, in the order of their bytes in the file
  Metadata metadata;
};

/// Dtypes F32, F16, BF16, F64, I8 to I64, U8 to U32 and BOOL. Time and memory are proportional to the file; tensors are
/// read straight into their storage. Throws OutOfMemory, and DataError when the file can't be read or breaks a rule of
/// the format: header length, JSON, duplicate names, unknown dtypes, negative or overflowing sizes, byte ranges that
/// overlap, leave holes, leave the file or disagree with shape and dtype, truth values other than 0 and 1.
SafetensorsFile read_safetensors(const std::filesystem::path& file);

/// The same from memory; `name` stands in messages.
SafetensorsFile parse_safetensors(std::span<const uint8_t> bytes, const std::string& name);

/// Writes tensors (of any device and strides), one at a time. The file appears under its name only when it is complete:
/// it is written beside it, flushed to disk and renamed. When `file` can't be written, `otherwise` is tried where it is
/// given. Returns the one that was written. Throws WriteError (a DataError, nn/data/file.h) when there is none and
/// OutOfMemory without memory for a dense copy of one tensor: the old file, if any, is then as it was, and the tensors
/// are too. Throws ValueError on a repeated name, the name "__metadata__", an undefined tensor, text that isn't UTF-8
/// or names and metadata of more than 100 MB.
std::filesystem::path write_safetensors(const std::filesystem::path& file,
                                        const std::vector<std::pair<std::string, Tensor>>& tensors,
                                        const Metadata& metadata = {}, const std::filesystem::path& otherwise = {});

}  // namespace ashlar::nn

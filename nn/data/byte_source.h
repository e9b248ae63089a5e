// Bytes that a reader of files asks for piece by piece: of a file, or of memory that stands for one.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <system_error>

#include "nn/data/file.h"

namespace ashlar::nn {

struct ByteSource {
  std::string name;  ///< stands in messages
  uint64_t size;
  std::function<void(uint64_t offset, std::span<uint8_t> bytes)> read_at;  ///< inside of [0, size)
};

/// `bytes` must outlive it.
inline ByteSource source_of(std::span<const uint8_t> bytes, const std::string& name) {
  return {name, bytes.size(), [bytes](uint64_t offset, std::span<uint8_t> to) {
            if (!to.empty()) std::memcpy(to.data(), bytes.data() + offset, to.size());
          }};
}

/// What `read(source)` makes of `file`. Throws DataError naming `operation` when it can't be read.
template <class Read>
auto read_source(const char* operation, const std::filesystem::path& file, Read read) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {  // a pipe is read once, from its beginning to its end
    const std::vector<uint8_t> bytes = read_file(operation, file);
    return read(source_of(bytes, file.string()));
  }
  const InputFile in(operation, file);
  return read(
      ByteSource{file.string(), in.size(), [&in](uint64_t offset, std::span<uint8_t> to) { in.read_at(offset, to); }});
}

}  // namespace ashlar::nn

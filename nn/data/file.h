// Whole files in and out, with errors as DataError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace ashlar::nn {

/// All bytes of `file`. Throws DataError naming `operation` when it can't be read.
std::vector<uint8_t> read_file(const char* operation, const std::filesystem::path& file);

/// Writes `parts` one after another to a new file beside `file`, flushes it to disk and renames it: a reader sees the
/// old file or the new one, whole. Throws DataError naming `operation`; the old file, if any, is then untouched.
void write_file_atomically(const char* operation, const std::filesystem::path& file,
                           std::initializer_list<std::span<const uint8_t>> parts);

}  // namespace ashlar::nn

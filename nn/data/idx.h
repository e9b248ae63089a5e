// Reader of IDX files, the format of MNIST and its relatives (http://yann.lecun.com/exdb/mnist/): two zero bytes, a
// type byte, a rank byte, big-endian 32-bit sizes, then the elements row-major.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// The array in `file`, on the CPU: u8, i32, f32 or f64 (types 0x08, 0x0C, 0x0D, 0x0E). Gzip is recognised by its first
/// bytes. Throws OutOfMemory, and DataError when the file can't be read, is truncated, has bytes after its end, or has
/// a header that doesn't agree with its length, or when it has more bytes, packed or unpacked, than read_limit() of
/// nn/data/file.h. Memory stays within a small multiple of the real (uncompressed) size, whatever the header claims.
Tensor read_idx(const std::filesystem::path& file);

/// The same from memory; `name` stands in messages.
Tensor parse_idx(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace ashlar::nn

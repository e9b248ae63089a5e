// NumPy's arrays in files: .npy (format 1.0, 2.0 and 3.0 of numpy.lib.format).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// The array in `file`, dense on the CPU: f16, f32, f64, bool, u8, u16, u32, i8, i16, i32 or i64, of either byte order,
/// stored row by row (C) or column by column (Fortran). Throws DataError when the file can't be read, holds another
/// type (complex, text, records, objects, u64), or hasn't exactly as many bytes as its header says; OutOfMemory.
Tensor read_npy(const std::filesystem::path& file);
/// The same from memory; `name` stands in messages.
Tensor parse_npy(std::span<const uint8_t> bytes, const std::string& name);

/// Writes `tensor`, of any device and strides, in C order. A reader sees the old file or the new one, whole. Throws
/// DTypeError on bf16, which NumPy has not, WriteError of nn/data/file.h, OutOfMemory.
void write_npy(const std::filesystem::path& file, const Tensor& tensor);

// ---- for the library: arrays inside of archives ---------------------------------------------------------------------
/// The array of `size` bytes that read() gives one after another.
Tensor read_npy_stream(const std::string& name, uint64_t size, const std::function<void(std::span<uint8_t>)>& read);
/// What stands before the elements. Throws DTypeError on bf16.
std::string npy_header_of(const Tensor& tensor);

}  // namespace ashlar::nn

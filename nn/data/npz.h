// NumPy's archives of named arrays: .npz, zip files whose members are .npy, read and written by minizip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// The arrays of `file` in its order, under their names without ".npy", each as read_npy() gives it. Throws DataError
/// when the file can't be read, is no whole zip, has a member twice, encrypted, packed by something else than deflate
/// or that is no .npy, or packed data that become more than read_limit() of nn/data/file.h; OutOfMemory.
std::vector<std::pair<std::string, Tensor>> read_npz(const std::filesystem::path& file);
/// The same from memory; `name` stands in messages.
std::vector<std::pair<std::string, Tensor>> parse_npz(std::span<const uint8_t> bytes, const std::string& name);

/// Writes the tensors as numpy.savez does, or `compressed` as numpy.savez_compressed. The archive is made in memory; a
/// reader of the file sees the old one or the new one, whole. Throws ValueError on a name that is empty, comes twice or
/// has a zero byte, DTypeError on bf16, WriteError of nn/data/file.h, OutOfMemory.
void write_npz(const std::filesystem::path& file, const std::vector<std::pair<std::string, Tensor>>& tensors,
               bool compressed = false);

}  // namespace ashlar::nn

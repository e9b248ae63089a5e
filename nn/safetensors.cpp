#include "nn/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "nn/data/byte_source.h"
#include "nn/data/file.h"
#include "nn/data/host_memory.h"
#include "nn/safetensors_header.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

using std::filesystem::path;

constexpr const char* kRead = "read_safetensors";
constexpr const char* kWrite = "write_safetensors";
constexpr size_t kLengthBytes = 8;
constexpr const char* kStillThere =
    "Nothing is lost: the tensors are still in memory. Write them elsewhere, or here once folder, permissions and free "
    "space are right";

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

Tensor read_tensor(const ByteSource& source, const SafetensorsEntry& entry, uint64_t data_begin) {
  Tensor tensor = Tensor::empty(entry.shape, entry.dtype);
  const size_t count = entry.end - entry.begin;
  if (count == 0) return tensor;
  const std::span<uint8_t> bytes(static_cast<uint8_t*>(tensor.data()), count);
  source.read_at(data_begin + entry.begin, bytes);
  if (entry.dtype == DType::boolean && std::ranges::any_of(bytes, [](uint8_t b) { return b > 1; })) {
    refuse_safetensors(source.name, "\"" + entry.name + "\" with a truth value that is neither 0 nor 1",
                       "BOOL bytes of 0 or 1");
  }
  return tensor;
}

SafetensorsHeader read_header(const ByteSource& source, uint64_t& data_begin) {
  if (source.size < kLengthBytes) refuse_safetensors(source.name, std::to_string(source.size) + " bytes", "at least 8");
  std::array<uint8_t, kLengthBytes> length;
  source.read_at(0, length);
  const auto header_bytes = std::bit_cast<uint64_t>(length);
  if (header_bytes > kMaxSafetensorsHeader || header_bytes > source.size - kLengthBytes) {
    refuse_safetensors(source.name, "a header of " + std::to_string(header_bytes) + " bytes",
                       "at most what the file holds, and 100 million");
  }
  data_begin = kLengthBytes + header_bytes;
  std::vector<uint8_t> text(header_bytes);
  source.read_at(kLengthBytes, text);
  return parse_safetensors_header({reinterpret_cast<const char*>(text.data()), text.size()}, source.size - data_begin,
                                  source.name);
}

SafetensorsFile read_all(const ByteSource& source) {
  return with_host_memory(kRead, source.name, [&] {
    uint64_t data_begin = 0;
    SafetensorsHeader header = read_header(source, data_begin);
    SafetensorsFile result;
    result.metadata = std::move(header.metadata);
    result.tensors.reserve(header.entries.size());
    for (SafetensorsEntry& entry : header.entries) {
      Tensor tensor = read_tensor(source, entry, data_begin);
      result.tensors.emplace_back(std::move(entry.name), std::move(tensor));
    }
    return result;
  });
}

/// One tensor after the other, so that no more than one is copied to the host, or made dense, at a time.
void write_to(const path& file, std::string_view header, const std::vector<std::pair<std::string, Tensor>>& tensors) {
  AtomicFile out(kWrite, file);
  out.write(std::bit_cast<std::array<uint8_t, kLengthBytes>>(uint64_t{header.size()}));
  out.write({reinterpret_cast<const uint8_t*>(header.data()), header.size()});
  for (const auto& [name, tensor] : tensors) {
    if (tensor.numel() == 0) continue;
    try {
      const Tensor dense = tensor.to(Device::cpu()).contiguous();
      out.write({static_cast<const uint8_t*>(dense.data()), static_cast<size_t>(dense.bytes())});
    } catch (const OutOfMemory& error) {
      throw OutOfMemory(kWrite, "\"" + name + "\" " + tensor.str() + " (" + error.what() + ")",
                        "memory for a dense copy of it on the host", kStillThere);
    }
  }
  out.commit();
}

}  // namespace

SafetensorsFile parse_safetensors(std::span<const uint8_t> bytes, const std::string& name) {
  return read_all(source_of(bytes, name));
}

SafetensorsFile read_safetensors(const path& file) { return read_source(kRead, file, read_all); }

path write_safetensors(const path& file, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const Metadata& metadata, const path& otherwise) {
  const std::string header =
      with_host_memory(kWrite, "the header", [&] { return safetensors_header_of(tensors, metadata); });
  std::string failure;
  try {
    write_to(file, header, tensors);
    return file;
  } catch (const WriteError& error) {
    failure = error.reason;
  }
  if (!otherwise.empty()) {
    try {
      write_to(otherwise, header, tensors);
      return otherwise;
    } catch (const WriteError& error) {
      failure += ", and " + otherwise.string() + ": " + error.reason;
    }
  }
  throw WriteError(kWrite, file, failure, kStillThere);
}

}  // namespace ashlar::nn

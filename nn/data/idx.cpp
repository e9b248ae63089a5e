#include "nn/data/idx.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "nn/data/file.h"
#include "nn/data/gunzip.h"
#include "nn/data/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "read_idx";

[[noreturn]] void damaged(const std::string& name, const std::string& came, const std::string& needed) {
  throw DataError(kName, name + ": " + came, needed, "Check that the file is an undamaged IDX file");
}

/// The bytes of the array, wherever they come from.
class Source {
 public:
  Source(std::span<const uint8_t> bytes, const std::string& name) : rest_(bytes) {
    if (is_gzip(bytes)) gunzip_.emplace(bytes, name);
  }
  /// Up to `count` bytes; fewer only at the end.
  std::vector<uint8_t> read(size_t count) {
    std::vector<uint8_t> out;
    if (gunzip_) {
      gunzip_->read(count, out);
    } else {
      const size_t piece = std::min(count, rest_.size());
      out.assign(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(piece));
      rest_ = rest_.subspan(piece);
    }
    return out;
  }

 private:
  std::span<const uint8_t> rest_;
  std::optional<GunzipStream> gunzip_;
};

std::optional<DType> element_type(uint8_t code) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0B:
      return DType::i16;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    default:
      return std::nullopt;
  }
}

template <Storable T>
Tensor as_tensor(const std::vector<uint8_t>& bytes, const Shape& shape) {
  std::vector<T> values(bytes.size() / sizeof(T));
  auto* out = reinterpret_cast<uint8_t*>(values.data());
  for (size_t i = 0; i < bytes.size(); i++) {  // big-endian to the host's little-endian
    const size_t within = i % sizeof(T);
    out[i - within + (sizeof(T) - 1 - within)] = bytes[i];
  }
  return Tensor::from(values, shape);
}

Tensor parse(std::span<const uint8_t> bytes, const std::string& name) {
  Source source(bytes, name);
  const std::vector<uint8_t> magic = source.read(4);
  if (magic.size() < 4) damaged(name, std::to_string(magic.size()) + " bytes", "at least the 4 bytes of a header");
  if (magic[0] != 0 || magic[1] != 0) damaged(name, "a first byte that isn't zero", "two zero bytes at the start");
  const std::optional<DType> dtype = element_type(magic[2]);
  if (!dtype) damaged(name, "element type " + std::to_string(magic[2]), "0x08, 0x09, 0x0B, 0x0C, 0x0D or 0x0E");
  const int rank = magic[3];
  if (rank < 1 || rank > kMaxRank) {
    damaged(name, std::to_string(rank) + " dimensions", "1 to " + std::to_string(kMaxRank));
  }
  const size_t size_bytes = static_cast<size_t>(rank) * 4;
  const std::vector<uint8_t> sizes = source.read(size_bytes);
  if (sizes.size() < size_bytes) damaged(name, "a header that ends too early", "all sizes in the header");

  Shape shape;
  uint64_t total = static_cast<uint64_t>(size_of(*dtype));
  bool overflow = false, empty = false;
  for (size_t i = 0; i < size_bytes; i += 4) {
    const uint64_t size =
        uint64_t{sizes[i]} << 24 | uint64_t{sizes[i + 1]} << 16 | uint64_t{sizes[i + 2]} << 8 | uint64_t{sizes[i + 3]};
    shape.push_back(static_cast<int64_t>(size));
    empty = empty || size == 0;
    overflow = overflow || (size != 0 && total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / size);
    if (!overflow && size != 0) total *= size;
  }
  if (empty) total = 0;
  if (overflow) damaged(name, "a header of shape " + shape.str(), "a size that fits into memory");

  if (is_gzip(bytes) && total > read_limit()) {
    damaged(name, "compressed data of " + std::to_string(total) + " bytes",
            "at most " + std::to_string(read_limit()) + ", or more in ASHLAR_READ_LIMIT if the file is sound");
  }

  const std::vector<uint8_t> data = source.read(static_cast<size_t>(total));
  if (data.size() < total) {
    damaged(name, std::to_string(data.size()) + " bytes of data",
            std::to_string(total) + " for the header's shape " + shape.str());
  }
  if (!source.read(1).empty()) {
    damaged(name, "more than " + std::to_string(total) + " bytes of data",
            "exactly as many for the header's shape " + shape.str());
  }
  switch (*dtype) {
    case DType::u8:
      return as_tensor<uint8_t>(data, shape);
    case DType::i8:
      return as_tensor<int8_t>(data, shape);
    case DType::i16:
      return as_tensor<int16_t>(data, shape);
    case DType::i32:
      return as_tensor<int32_t>(data, shape);
    case DType::f32:
      return as_tensor<float>(data, shape);
    default:
      return as_tensor<double>(data, shape);
  }
}

}  // namespace

Tensor parse_idx(std::span<const uint8_t> bytes, const std::string& name) {
  return with_host_memory(kName, name, [&] { return parse(bytes, name); });
}

Tensor read_idx(const std::filesystem::path& file) { return parse_idx(read_file(kName, file), file.string()); }

}  // namespace ashlar::nn

// Readers of arrays: IDX, NumPy's files, tables in text.
#include <zlib.h>

#include <cstring>
#include <optional>
#include <vector>

#include "nn/data/csv.h"
#include "nn/data/idx.h"
#include "nn/data/npy.h"
#include "nn/data/npz.h"
#include "runtime/support/error.h"
#include "tests/fuzz/targets.h"

namespace ashlar::fuzz {
namespace {

std::optional<Tensor> idx_of(Bytes bytes) {
  try {
    return nn::parse_idx(bytes, "input");
  } catch (const DataError&) {
    return std::nullopt;
  }
}

bool same(const std::optional<Tensor>& a, const std::optional<Tensor>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->shape() == b->shape() && a->dtype() == b->dtype() &&
         (a->numel() == 0 || std::memcmp(a->data(), b->data(), static_cast<size_t>(a->bytes())) == 0);
}

std::vector<uint8_t> gzip(Bytes bytes) {
  z_stream stream{};
  require(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflate starts");
  std::vector<uint8_t> out(deflateBound(&stream, bytes.size()) + 32);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate ends");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

/// Plain, and packed here, since libFuzzer doesn't find the checksum of a packed file.
void read_idx(Bytes bytes) {
  const std::optional<Tensor> plain = idx_of(bytes);
  const bool is_packed = bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
  if (!is_packed) require(same(plain, idx_of(gzip(bytes))), "packed and plain are the same");
}

void read_npy(Bytes bytes) {
  try {
    const Tensor tensor = nn::parse_npy(bytes, "input");
    require(tensor.is_contiguous() && static_cast<size_t>(tensor.bytes()) < bytes.size(), "elements of the file");
  } catch (const DataError&) {
  }
}

void read_npz(Bytes bytes) {
  try {
    nn::parse_npz(bytes, "input");
  } catch (const DataError&) {
  }
}

/// As numbers, and as words, which all fields are.
void read_csv(Bytes bytes) {
  for (const bool words : {false, true}) {
    try {
      nn::CsvOptions options{.has_header = false, .missing = 0};
      if (words) options.categorical = {"0"};
      const nn::CsvTable table = nn::parse_csv(bytes, "input", options);
      require(table.values.size(1) == static_cast<int64_t>(table.columns.size()), "a value for each column");
    } catch (const DataError&) {
    } catch (const ValueError&) {  // no column 0
      require(words && bytes.size() <= 3, "a column");
    }
  }
}

}  // namespace ashlar::fuzz

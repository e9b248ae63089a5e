// Readers of nn: data and weights.
#include <zlib.h>
#include <cstring>
#include <limits>
#include <optional>

#include "nn/data/idx.h"
#include "nn/data/text.h"
#include "nn/safetensors.h"
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

void read_safetensors(Bytes bytes) {
  try {
    const nn::SafetensorsFile file = nn::parse_safetensors(bytes, "input");
    uint64_t header = 0, data = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    for (const auto& [name, tensor] : file.tensors) data += static_cast<uint64_t>(tensor.bytes());
    require(sizeof header + header + data == bytes.size(), "tensors cover the data");
  } catch (const DataError&) {
  }
}

/// Plain, and packed here, since libFuzzer doesn't find the checksum of a packed file.
void read_idx(Bytes bytes) {
  const std::optional<Tensor> plain = idx_of(bytes);
  const bool is_packed = bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
  if (!is_packed) require(same(plain, idx_of(gzip(bytes))), "packed and plain are the same");
}

void read_text(Bytes bytes) {
  try {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const nn::CharVocabulary vocabulary(text);
    require(vocabulary.decode(vocabulary.encode(text)) == text, "a text comes back");
  } catch (const DataError&) {
  }
}

}  // namespace ashlar::fuzz

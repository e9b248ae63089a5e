// Readers of nn: data and weights.
#include <cstring>

#include "nn/data/text.h"
#include "nn/safetensors.h"
#include "runtime/support/error.h"
#include "tests/fuzz/targets.h"

namespace ashlar::fuzz {
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

void read_text(Bytes bytes) {
  try {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const nn::CharVocabulary vocabulary(text);
    require(vocabulary.decode(vocabulary.encode(text)) == text, "a text comes back");
  } catch (const DataError&) {
  }
}

}  // namespace ashlar::fuzz

#include "nn/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "nn/data/file.h"
#include "runtime/error.h"

namespace ashlar::nn {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr size_t kAlignment = 8;            // of the first tensor's bytes
constexpr const char* kMetadata = "__metadata__";
constexpr std::pair<const char*, DType> kDTypeNames[] = {
    {"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16}, {"F64", DType::f64},
    {"I32", DType::i32}, {"I64", DType::i64}, {"U8", DType::u8},     {"BOOL", DType::boolean}};

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

[[noreturn]] void damaged(const std::string& name, const std::string& came, const std::string& needed) {
  throw DataError("read_safetensors", name + ": " + came, needed,
                  "Check that the file is an undamaged safetensors file");
}

/// One entry of the header.
struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t begin, end;  // bytes from the end of the header
};

/// JSON without duplicate keys, which nlohmann::json would silently merge.
json parse_header(std::span<const uint8_t> text, const std::string& name) {
  std::vector<std::set<std::string>> keys;
  auto check = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      damaged(name, "the key \"" + value.get<std::string>() + "\" twice", "every key once");
    }
    return true;
  };
  if (text.empty() || text.front() != '{') damaged(name, "a header that doesn't begin with {", "a JSON object");
  try {
    return json::parse(text.begin(), text.end(), check);
  } catch (const json::exception& error) {
    damaged(name, std::string("a header that isn't JSON (") + error.what() + ")", "a JSON object");
  }
}

/// A whole number of the header that is neither negative nor above the int64 range.
uint64_t number(const json& value, const std::string& name, const std::string& what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
    damaged(name, what + " with " + value.type_name() + " out of range where a size or offset belongs",
            "a whole number from 0 to 2^63 - 1");
  }
  return value.get<uint64_t>();
}

Entry parse_entry(const std::string& key, const json& value, uint64_t data_bytes, const std::string& name) {
  const std::string what = "\"" + key + "\"";
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets") || !value["dtype"].is_string() || !value["shape"].is_array() ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2) {
    damaged(name, what + " without its three fields", "dtype, shape and data_offsets of the format, nothing else");
  }
  const std::string dtype_name = value["dtype"].get<std::string>();
  const auto* dtype = std::ranges::find(kDTypeNames, dtype_name, [](const auto& pair) { return pair.first; });
  if (dtype == std::end(kDTypeNames)) {
    damaged(name, what + " of dtype " + dtype_name, "F32, F16, BF16, F64, I32, I64, U8 or BOOL");
  }
  Entry entry{key,
              dtype->second,
              {},
              number(value["data_offsets"][0], name, what),
              number(value["data_offsets"][1], name, what)};
  if (value["shape"].size() > size_t{kMaxRank}) {
    damaged(name, what + " of rank " + std::to_string(value["shape"].size()), "rank 0 to " + std::to_string(kMaxRank));
  }
  auto bytes = static_cast<uint64_t>(size_of(entry.dtype));
  bool empty = false;
  for (const json& item : value["shape"]) {
    const uint64_t size = number(item, name, what);
    entry.shape.push_back(static_cast<int64_t>(size));
    empty = empty || size == 0;
    if (size == 0) continue;
    if (bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / size) {
      damaged(name, what + " with a shape that overflows", "a shape that fits the file");
    }
    bytes *= size;
  }
  if (empty) bytes = 0;
  if (entry.begin > entry.end || entry.end > data_bytes || entry.end - entry.begin != bytes) {
    damaged(name,
            what + " at bytes " + std::to_string(entry.begin) + " to " + std::to_string(entry.end) + " of " +
                std::to_string(data_bytes),
            std::to_string(bytes) + " bytes for shape " + entry.shape.str() + ", inside of the file");
  }
  return entry;
}

Metadata parse_metadata(const json& value, const std::string& name) {
  Metadata metadata;
  if (!value.is_object()) damaged(name, "metadata that isn't an object", "an object of strings");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) damaged(name, "metadata \"" + key + "\" that isn't text", "an object of strings");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

Tensor as_tensor(const Entry& entry, std::span<const uint8_t> data, const std::string& name) {
  const std::span<const uint8_t> bytes = data.subspan(entry.begin, entry.end - entry.begin);
  if (entry.dtype == DType::boolean && std::ranges::any_of(bytes, [](uint8_t b) { return b > 1; })) {
    damaged(name, "\"" + entry.name + "\" with a truth value that is neither 0 nor 1", "BOOL bytes of 0 or 1");
  }
  Tensor tensor = Tensor::empty(entry.shape, entry.dtype);
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), bytes.size());
  return tensor;
}

const char* dtype_name(DType dtype) {
  for (const auto& [name, value] : kDTypeNames) {
    if (value == dtype) return name;
  }
  return "";  // every DType is in the table
}

}  // namespace

SafetensorsFile parse_safetensors(std::span<const uint8_t> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes) damaged(name, std::to_string(bytes.size()) + " bytes", "at least 8");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > kMaxHeader || header_bytes > bytes.size() - kLengthBytes) {
    damaged(name, "a header of " + std::to_string(header_bytes) + " bytes",
            "at most what the file holds, and 100 million");
  }
  const json header = parse_header(bytes.subspan(kLengthBytes, header_bytes), name);
  const std::span<const uint8_t> data = bytes.subspan(kLengthBytes + header_bytes);

  SafetensorsFile result;
  std::vector<Entry> entries;
  for (const auto& [key, value] : header.items()) {
    if (key == kMetadata) {
      result.metadata = parse_metadata(value, name);
    } else {
      entries.push_back(parse_entry(key, value, data.size(), name));
    }
  }
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::tuple(e.begin, e.end, e.name); });
  uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) {
      damaged(name, "\"" + entry.name + "\" from byte " + std::to_string(entry.begin),
              "byte " + std::to_string(expected) + ": tensors neither overlap nor leave holes");
    }
    expected = entry.end;
  }
  if (expected != data.size()) {
    damaged(name, std::to_string(data.size()) + " bytes of data", std::to_string(expected) + ", as the header says");
  }
  for (const Entry& entry : entries) result.tensors.emplace_back(entry.name, as_tensor(entry, data, name));
  return result;
}

SafetensorsFile read_safetensors(const std::filesystem::path& file) {
  return parse_safetensors(read_file("read_safetensors", file), file.string());
}

void write_safetensors(const std::filesystem::path& file, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const Metadata& metadata) {
  constexpr const char* kName = "write_safetensors";
  ordered_json header = ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::vector<uint8_t> data;
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadata || header.contains(name)) {
      throw ValueError(kName, "the name \"" + name + "\" " + (name == kMetadata ? "of the metadata" : "twice"),
                       "distinct names", "Rename the tensor");
    }
    const Tensor dense = tensor.to(Device::cpu()).contiguous();
    const size_t begin = data.size(), bytes = static_cast<size_t>(dense.bytes());
    data.resize(begin + bytes);
    if (bytes > 0) std::memcpy(data.data() + begin, dense.data(), bytes);
    header[name] = {{"dtype", dtype_name(dense.dtype())},
                    {"shape", std::vector<int64_t>(dense.shape().begin(), dense.shape().end())},
                    {"data_offsets", {begin, begin + bytes}}};
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception& error) {
    throw ValueError(kName, std::string("names or metadata that JSON refuses (") + error.what() + ")", "UTF-8 text",
                     "Use UTF-8 in names and metadata");
  }
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');

  const uint64_t header_bytes = text.size();
  std::vector<uint8_t> front(kLengthBytes + text.size());
  std::memcpy(front.data(), &header_bytes, kLengthBytes);
  std::memcpy(front.data() + kLengthBytes, text.data(), text.size());
  write_file_atomically(kName, file, {front, data});
}

}  // namespace ashlar::nn

#include "nn/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "json/strict_json.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

using nlohmann::json;
using strict_json::shown;

constexpr size_t kAlignment = 8;  // of the first tensor's bytes
constexpr const char* kMetadata = "__metadata__";
constexpr std::pair<const char*, DType> kDTypeNames[] = {
    {"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16}, {"F64", DType::f64},
    {"I32", DType::i32}, {"I64", DType::i64}, {"U8", DType::u8},     {"BOOL", DType::boolean},
    {"U32", DType::u32}, {"I8", DType::i8},   {"U16", DType::u16},   {"I16", DType::i16}};

/// Reads the header event by event, so that whatever doesn't belong into one is refused before it takes memory.
class HeaderEvents final : public strict_json::Events {
 public:
  HeaderEvents(uint64_t data_bytes, const std::string& name) : data_bytes_(data_bytes), name_(name) {}

  bool null() final { return misplaced("null"); }
  bool boolean(bool /*value*/) final { return misplaced("a truth value"); }
  bool number_integer(number_integer_t /*value*/) final { return misplaced("a negative number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) final { return misplaced("a fraction"); }

  bool number_unsigned(number_unsigned_t value) final {
    if (value > uint64_t{std::numeric_limits<int64_t>::max()}) return misplaced("a number above 2^63 - 1");
    if (at_ == At::shape) {
      if (entry_.shape.rank() == kMaxRank)
        damaged(what() + " of a higher rank", "rank 0 to " + std::to_string(kMaxRank));
      entry_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (at_ != At::offsets) return misplaced("a number");
    if (offsets_ == 2) incomplete();
    (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    return true;
  }

  bool string(string_t& value) final {
    if (at_ == At::metadata) {
      *text_ = std::move(value);
      return true;
    }
    if (at_ != At::entry || field_ != kDType) return misplaced("text");
    const auto* dtype = std::ranges::find(kDTypeNames, value, [](const auto& pair) { return pair.first; });
    if (dtype == std::end(kDTypeNames)) {
      damaged(what() + " of dtype " + shown(value), "F32, F16, BF16, F64, I8, I16, I32, I64, U8, U16, U32 or BOOL");
    }
    entry_.dtype = dtype->second;
    return true;
  }

  bool start_object(size_t /*size*/) final {
    if (at_ == At::start) {
      at_ = At::header;
    } else if (at_ == At::header && key_ == kMetadata) {
      at_ = At::metadata;
    } else if (at_ == At::header) {
      at_ = At::entry;
      entry_ = {};
      entry_.name = std::move(key_);
      fields_ = 0;
      offsets_ = 0;
    } else {
      return misplaced("an object");
    }
    return true;
  }

  bool start_array(size_t /*size*/) final {
    if (at_ != At::entry || field_ == kDType) return misplaced("a list");
    at_ = field_ == kShape ? At::shape : At::offsets;
    return true;
  }

  bool end_array() final {
    if (at_ == At::offsets && offsets_ != 2) incomplete();
    at_ = At::entry;
    return true;
  }

  bool end_object() final {
    if (at_ == At::entry) finish_entry();
    at_ = At::header;
    return true;
  }

  bool key(string_t& key) final {
    if (at_ == At::metadata) {
      const auto [place, is_new] = result_.metadata.emplace(std::move(key), "");
      if (!is_new) twice(place->first);
      text_ = &place->second;
      metadata_key_ = &place->first;
    } else if (at_ == At::entry) {
      field_ = key == "dtype" ? kDType : key == "shape" ? kShape : key == "data_offsets" ? kOffsets : 0;
      if (field_ == 0) incomplete();
      if ((fields_ & field_) != 0) twice(key);
      fields_ |= field_;
    } else {
      if (key == kMetadata && std::exchange(has_metadata_, true)) twice(key);
      key_ = std::move(key);
    }
    return true;
  }

  /// Puts the entries in order and looks at them together.
  SafetensorsHeader take() {
    std::vector<SafetensorsEntry>& entries = result_.entries;
    std::ranges::sort(entries, {},
                      [](const SafetensorsEntry& e) { return std::tuple(e.begin, e.end, std::string_view(e.name)); });
    std::vector<std::string_view> names(entries.size());
    std::ranges::transform(entries, names.begin(), &SafetensorsEntry::name);
    std::ranges::sort(names);
    if (const auto found = std::ranges::adjacent_find(names); found != names.end()) twice(*found);

    uint64_t expected = 0;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.begin != expected) {
        damaged("\"" + shown(entry.name) + "\" from byte " + std::to_string(entry.begin),
                "byte " + std::to_string(expected) + ": tensors neither overlap nor leave holes");
      }
      expected = entry.end;
    }
    if (expected != data_bytes_) {
      damaged(std::to_string(data_bytes_) + " bytes of data", std::to_string(expected) + ", as the header says");
    }
    return std::move(result_);
  }

 private:
  enum class At { start, header, entry, shape, offsets, metadata };
  enum Field { kDType = 1, kShape = 2, kOffsets = 4 };

  [[noreturn]] void damaged(const std::string& came, const std::string& needed) const {
    refuse_safetensors(name_, came, needed);
  }
  [[noreturn]] void twice(std::string_view key) const {
    damaged("the key \"" + shown(key) + "\" twice", "every key once");
  }
  [[noreturn]] void incomplete() const {
    damaged(what() + " without its three fields", "dtype, shape and data_offsets of the format, nothing else");
  }
  [[noreturn]] bool misplaced(const std::string& value) const {
    switch (at_) {
      case At::shape:
      case At::offsets:
        damaged(what() + " with " + value + " where a size or offset belongs", "a whole number from 0 to 2^63 - 1");
      case At::metadata:
        damaged("metadata \"" + shown(*metadata_key_) + "\" that isn't text", "an object of strings");
      case At::header:
        if (key_ == kMetadata) damaged("metadata that isn't an object", "an object of strings");
        damaged("\"" + shown(key_) + "\" without its three fields",
                "dtype, shape and data_offsets of the format, nothing else");
      case At::entry:
      case At::start:
        break;
    }
    incomplete();
  }
  std::string what() const { return "\"" + shown(entry_.name) + "\""; }

  void finish_entry() {
    if (fields_ != (kDType | kShape | kOffsets)) incomplete();
    auto bytes = static_cast<uint64_t>(size_of(entry_.dtype));
    bool empty = false;
    for (const int64_t size : entry_.shape) {
      empty = empty || size == 0;
      if (size == 0) continue;
      if (bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / size)) {
        damaged(what() + " with a shape that overflows", "a shape that fits the file");
      }
      bytes *= static_cast<uint64_t>(size);
    }
    if (empty) bytes = 0;
    if (entry_.begin > entry_.end || entry_.end > data_bytes_ || entry_.end - entry_.begin != bytes) {
      damaged(what() + " at bytes " + std::to_string(entry_.begin) + " to " + std::to_string(entry_.end) + " of " +
                  std::to_string(data_bytes_),
              std::to_string(bytes) + " bytes for shape " + entry_.shape.str() + ", inside of the file");
    }
    result_.entries.push_back(std::move(entry_));
  }

  const uint64_t data_bytes_;
  const std::string& name_;
  SafetensorsHeader result_;
  At at_ = At::start;
  string_t key_;                // of the header, whose value comes next
  SafetensorsEntry entry_;      // that is being read
  int field_ = 0, fields_ = 0;  // of it: the one whose value comes next, and those seen
  int offsets_ = 0;             // of it that have been read
  bool has_metadata_ = false;
  std::string* text_ = nullptr;  // of the metadata, whose value comes next
  const std::string* metadata_key_ = nullptr;
};

const char* dtype_name(DType dtype) {
  for (const auto& [name, value] : kDTypeNames) {
    if (value == dtype) return name;
  }
  return "";  // every DType is in the table
}

}  // namespace

void refuse_safetensors(const std::string& name, const std::string& came, const std::string& needed) {
  throw DataError("read_safetensors", name + ": " + came, needed,
                  "Check that the file is an undamaged safetensors file");
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes, const std::string& name) {
  if (!text.starts_with('{')) refuse_safetensors(name, "a header that doesn't begin with {", "a JSON object");
  HeaderEvents events(data_bytes, name);
  try {
    strict_json::read(text, events);
  } catch (const strict_json::Refusal& refusal) {
    refuse_safetensors(name, std::string("a header with ") + refusal.what(), "a JSON object");
  }
  return events.take();
}

std::string safetensors_header_of(const std::vector<std::pair<std::string, Tensor>>& tensors,
                                  const Metadata& metadata) {
  constexpr const char* kName = "write_safetensors";
  std::vector<std::string_view> names{kMetadata};
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  std::ranges::sort(names);
  if (const auto found = std::ranges::adjacent_find(names); found != names.end()) {
    throw ValueError(kName, "the name \"" + shown(*found) + "\" " + (*found == kMetadata ? "of the metadata" : "twice"),
                     "distinct names", "Rename the tensor");
  }
  std::string text = "{";
  try {
    if (!metadata.empty()) text += json(kMetadata).dump() + ":" + json(metadata).dump();
    uint64_t begin = 0;
    for (const auto& [name, tensor] : tensors) {
      if (!tensor.defined()) throw ValueError(kName, "an undefined tensor \"" + shown(name) + "\"", "tensors", "");
      const uint64_t end = begin + static_cast<uint64_t>(tensor.bytes());
      if (text.size() > 1) text += ",";
      text.append(json(name).dump())
          .append(R"(:{"dtype":")")
          .append(dtype_name(tensor.dtype()))
          .append(R"(","shape":[)");
      for (int axis = 0; axis < tensor.rank(); axis++)
        text.append(axis ? "," : "").append(std::to_string(tensor.shape()[axis]));
      text += R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
      begin = end;
    }
  } catch (const json::exception& error) {
    throw ValueError(kName, std::string("names or metadata that JSON refuses (") + error.what() + ")", "UTF-8 text",
                     "Use UTF-8 in names and metadata");
  }
  text += "}";
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  if (text.size() > kMaxSafetensorsHeader) {
    throw ValueError(kName, "names and metadata of " + std::to_string(text.size()) + " bytes",
                     "at most " + std::to_string(kMaxSafetensorsHeader) + ", as the format says",
                     "Write several files");
  }
  return text;
}

}  // namespace ashlar::nn

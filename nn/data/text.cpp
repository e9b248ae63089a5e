#include "nn/data/text.h"

#include <algorithm>

#include "nn/data/file.h"
#include "nn/data/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kVocabulary = "CharVocabulary";
constexpr const char* kDataset = "CharDataset";

/// Calls see(character) for each character of UTF-8 as RFC 3629 has it: no surrogates, no longer forms than needed,
/// nothing beyond U+10FFFF.
template <class See>
void for_each_character(std::string_view text, const char* operation, const std::string& name, See see) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i]);
    const size_t length = first < 0x80 ? 1 : first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    char32_t character = length == 1 ? first : first & (0x7FU >> length);
    bool is_valid = length != 0 && first < 0xF8 && length <= text.size() - i;
    for (size_t k = 1; is_valid && k < length; k++) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      is_valid = (next & 0xC0) == 0x80;
      character = character << 6 | (next & 0x3FU);
    }
    if (!is_valid || character < kLeast[length] || character > 0x10FFFF ||
        (character >= 0xD800 && character < 0xE000)) {
      throw DataError(operation, name + " with a byte " + std::to_string(first) + " at " + std::to_string(i),
                      "text in UTF-8", "Convert it, with iconv for instance");
    }
    see(character);
    i += length;
  }
}

void append(char32_t character, std::string& text) {
  const auto put = [&text](char32_t byte) { text.push_back(static_cast<char>(static_cast<uint8_t>(byte))); };
  if (character < 0x80) return put(character);
  const int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;  // bytes that follow
  constexpr char32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  put(kLead[more] | character >> 6 * more);
  for (int i = more - 1; i >= 0; i--) put(0x80U | (character >> 6 * i & 0x3FU));
}

std::string quoted(char32_t character) {
  std::string text;
  append(character, text);
  return "'" + text + "'";
}

}  // namespace

std::string read_text(const std::filesystem::path& file) {
  constexpr const char* kName = "read_text";
  const std::vector<uint8_t> bytes = read_file(kName, file);
  std::string text = with_host_memory(kName, file.string(), [&] { return std::string(bytes.begin(), bytes.end()); });
  for_each_character(text, kName, file.string(), [](char32_t) {});
  return text;
}

CharVocabulary::CharVocabulary(std::string_view text) {
  with_host_memory(kVocabulary, "the characters of a text", [&] {
    for_each_character(text, kVocabulary, "a text", [this](char32_t character) { numbers_.emplace(character, 0); });
    for (const auto& entry : numbers_) characters_.push_back(entry.first);
    std::ranges::sort(characters_);
    for (size_t i = 0; i < characters_.size(); i++) numbers_[characters_[i]] = static_cast<int64_t>(i);
  });
}

std::string CharVocabulary::characters() const {
  std::string text;
  for (const char32_t character : characters_) append(character, text);
  return text;
}

std::vector<int64_t> CharVocabulary::encode(std::string_view text) const {
  return with_host_memory(kVocabulary, "the tokens of a text", [&] {
    std::vector<int64_t> tokens;
    tokens.reserve(text.size());
    for_each_character(text, kVocabulary, "a text", [&](char32_t character) {
      const auto found = numbers_.find(character);
      if (found == numbers_.end()) {
        throw ValueError("CharVocabulary::encode", quoted(character) + " at character " + std::to_string(tokens.size()),
                         "one of the vocabulary's " + std::to_string(size()) + " characters",
                         "Make the vocabulary of a text that has them all");
      }
      tokens.push_back(found->second);
    });
    return tokens;
  });
}

std::string CharVocabulary::decode(std::span<const int64_t> tokens) const {
  return with_host_memory(kVocabulary, "a text", [&] {
    std::string text;
    for (const int64_t token : tokens) {
      if (token < 0 || token >= size()) {
        throw IndexError("CharVocabulary::decode", "token " + std::to_string(token),
                         "0 to " + std::to_string(size() - 1), "Decode tokens of the same vocabulary");
      }
      append(characters_[static_cast<size_t>(token)], text);
    }
    return text;
  });
}

CharDataset::CharDataset(std::span<const int64_t> tokens, int64_t length, int64_t stride)
    : length_(length), stride_(stride) {
  if (length < 1 || stride < 1) {
    throw ValueError(kDataset, "length " + std::to_string(length) + ", stride " + std::to_string(stride),
                     "positive numbers", "Start with a length of 128 and a stride of 1");
  }
  if (static_cast<int64_t>(tokens.size()) <= length) {
    throw ShapeError(kDataset, std::to_string(tokens.size()) + " tokens",
                     "more than the length, " + std::to_string(length), "Take a longer text or shorter windows");
  }
  with_host_memory(kDataset, "the tokens", [&] { tokens_.assign(tokens.begin(), tokens.end()); });
}

std::vector<Tensor> CharDataset::batch(std::span<const int64_t> indices, const Draw& /*draw*/) const {
  check_indices(kDataset, indices, size());
  const Shape shape{static_cast<int64_t>(indices.size()), length_};
  const Tensor inputs = Tensor::empty(shape, DType::i64), targets = Tensor::empty(shape, DType::i64);
  auto* input = static_cast<int64_t*>(inputs.data());
  auto* target = static_cast<int64_t*>(targets.data());
  for (const int64_t index : indices) {
    const auto from = tokens_.begin() + index * stride_;
    input = std::copy_n(from, length_, input);
    target = std::copy_n(from + 1, length_, target);
  }
  return {inputs, targets};
}

}  // namespace ashlar::nn

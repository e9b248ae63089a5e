// Text as a data set: characters as numbers, and windows of them for a network that foretells the next.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nn/data/dataset.h"

namespace ashlar::nn {

/// All of `file` as UTF-8. Throws DataError when it can't be read, isn't UTF-8, or has more bytes than read_limit() of
/// nn/data/file.h; OutOfMemory.
std::string read_text(const std::filesystem::path& file);

/// The distinct characters (Unicode code points) of a text in ascending order, each with its number there.
class CharVocabulary {
 public:
  /// Throws DataError on bytes that aren't UTF-8.
  explicit CharVocabulary(std::string_view text);

  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  /// All characters in the order of their numbers: the text of which another vocabulary becomes the same.
  std::string characters() const;
  /// Throws ValueError on a character that isn't in the vocabulary, DataError on bytes that aren't UTF-8.
  std::vector<int64_t> encode(std::string_view text) const;
  /// Throws IndexError on a number that no character has.
  std::string decode(std::span<const int64_t> tokens) const;

 private:
  std::vector<char32_t> characters_;
  std::unordered_map<char32_t, int64_t> numbers_;
};

/// Windows of a text in characters, or of any sequence of tokens. Sample i begins at token i · stride; a batch is
/// i64 [batch, length] inputs and i64 [batch, length] targets, the same shifted by one: the token that follows each.
class CharDataset : public Dataset {
 public:
  /// Keeps a copy. A stride of 1 gives every window, one of `length` windows side by side. Throws ValueError unless
  /// length and stride are positive, ShapeError on fewer than length + 1 tokens.
  CharDataset(std::span<const int64_t> tokens, int64_t length, int64_t stride = 1);

  int64_t size() const override { return (static_cast<int64_t>(tokens_.size()) - length_ - 1) / stride_ + 1; }
  int64_t length() const { return length_; }
  std::vector<Tensor> batch(std::span<const int64_t> indices, const Draw& draw) const override;

 private:
  std::vector<int64_t> tokens_;
  int64_t length_;
  int64_t stride_;
};

}  // namespace ashlar::nn

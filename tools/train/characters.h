// A text whose characters a network learns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/data/text.h"

namespace ashlar::tools::train {

/// A text in numbers; the last tenth is held out.
class Text {
 public:
  /// Throws DataError without a file, as nn::read_text(), and where there are too few characters for a window of
  /// `context` in each part. `option` is what a file is given with: it stands in the messages.
  Text(const std::string& file, int64_t context, const char* option = "--data");
  const nn::CharVocabulary& vocabulary() const { return vocabulary_; }
  std::span<const int64_t> training() const { return std::span(tokens_).first(split_); }
  std::span<const int64_t> held_out() const { return std::span(tokens_).subspan(split_); }
  std::string description() const;

 private:
  explicit Text(const std::string& text);
  nn::CharVocabulary vocabulary_;
  std::vector<int64_t> tokens_;
  size_t split_;
};

}  // namespace ashlar::tools::train

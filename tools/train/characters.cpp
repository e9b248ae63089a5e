#include "tools/train/characters.h"

#include <sstream>

#include "runtime/support/error.h"

namespace ashlar::tools::train {
namespace {

std::string read(const std::string& file, const char* option) {
  if (!file.empty()) return nn::read_text(file);
  throw DataError(option, "no file", "a text in UTF-8, some ten thousand characters or more",
                  "Any will do; the usual one is tinyshakespeare, 1.1 MB, data/tinyshakespeare/input.txt of "
                  "https://github.com/karpathy/char-rnn");
}

}  // namespace

Text::Text(const std::string& file, int64_t context, const char* option) : Text(read(file, option)) {
  const auto least = static_cast<size_t>(context) + 1;
  if (training().size() >= least && held_out().size() >= least) return;
  throw DataError(option, file + " of " + std::to_string(tokens_.size()) + " characters",
                  "at least " + std::to_string(10 * least) + " for a --context of " + std::to_string(context),
                  "Give a longer text or a smaller --context");
}

Text::Text(const std::string& text)
    : vocabulary_(text), tokens_(vocabulary_.encode(text)), split_(tokens_.size() - tokens_.size() / 10) {}

std::string Text::description() const {
  std::ostringstream text;
  text << training().size() << " characters to learn, " << held_out().size() << " held out, " << vocabulary_.size()
       << " distinct";
  return text.str();
}

}  // namespace ashlar::tools::train

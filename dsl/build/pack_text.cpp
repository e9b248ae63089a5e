#include "dsl/build/pack_text.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "runtime/support/packed_text.h"

namespace ashlar::dsl {
namespace {

constexpr size_t kShortest = detail::kShortestMatch, kLongest = kShortest + 127, kFurthest = 65535;

/// Where the text has had the same first characters before.
class Places {
 public:
  explicit Places(const std::string& text) : text_(text), before_(text.size()) {}

  void add(size_t at) {
    if (at + kShortest > text_.size()) return;
    const auto [last, is_new] = last_.emplace(start(at), at);
    before_[at] = is_new ? kNone : last->second;
    last->second = at;
  }

  struct Match {
    size_t length, distance;
  };
  /// The longest of the latest few; a length of 0 where there's none.
  Match longest(size_t at) const {
    Match best{0, 0};
    if (at + kShortest > text_.size()) return best;
    const auto last = last_.find(start(at));
    if (last == last_.end()) return best;
    size_t place = last->second;
    for (int tried = 0; tried < 64 && place != kNone && at - place <= kFurthest; tried++, place = before_[place]) {
      const size_t most = std::min(kLongest, text_.size() - at);
      size_t length = 0;
      while (length < most && text_[place + length] == text_[at + length]) length++;
      if (length > best.length) best = {length, at - place};
    }
    return best;
  }

 private:
  static constexpr size_t kNone = ~size_t{0};
  uint32_t start(size_t at) const {
    uint32_t characters;
    std::memcpy(&characters, text_.data() + at, sizeof characters);
    return characters;
  }
  const std::string& text_;
  std::vector<size_t> before_;
  std::unordered_map<uint32_t, size_t> last_;
};

}  // namespace

std::string pack_text(const std::string& text) {
  std::string packed(1, detail::kPackedText);
  for (int byte = 0; byte < 4; byte++) packed += static_cast<char>(text.size() >> (8 * byte));
  Places places(text);
  size_t plain = 0;  // where the characters that no match covers began
  const auto write_plain = [&](size_t end) {
    while (plain < end) {
      const size_t count = std::min<size_t>(end - plain, 128);
      packed += static_cast<char>(count - 1);
      packed.append(text, plain, count);
      plain += count;
    }
  };
  for (size_t at = 0; at < text.size();) {
    const Places::Match match = places.longest(at);
    if (match.length < kShortest) {
      places.add(at++);
      continue;
    }
    write_plain(at);
    packed += static_cast<char>(128 + (match.length - kShortest));
    packed += static_cast<char>(match.distance & 255);
    packed += static_cast<char>(match.distance >> 8);
    for (const size_t end = at + match.length; at < end;) places.add(at++);
    plain = at;
  }
  write_plain(text.size());
  return packed;
}

}  // namespace ashlar::dsl

// What a GPU's thread loads or stores at once: known to schedules and to what calls them.
#pragma once

#include <algorithm>

namespace ashlar {

/// Elements of one access, of which the widest tensor's have so many bytes: 16 bytes, but no more than eight elements.
constexpr int elements_of_access(int bytes) {
  constexpr int kAccessBytes = 16, kMost = 8;
  return std::min(kMost, kAccessBytes / bytes);
}

}  // namespace ashlar

// What was worked out for the calls just before, so that calls that are alike don't work it out again.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ashlar::detail {

/// Values by keys of at most kMostNumbers numbers, one for each place that a key's hash may say. For one thread.
template <typename Value, size_t kMostNumbers, size_t kPlaces = 32>
class Recent {
 public:
  /// The value of this key, by `work_out` where it isn't known.
  Value get(std::span<const int64_t> key, const auto& work_out) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const int64_t number : key) hash = (hash ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15u;
    Entry& entry = entries_[(hash >> 32) % kPlaces];
    if (entry.count == key.size() && std::equal(key.begin(), key.end(), entry.key.begin())) return entry.value;
    entry.count = 0;
    entry.value = work_out();
    std::ranges::copy(key, entry.key.begin());
    entry.count = key.size();
    return entry.value;
  }

 private:
  struct Entry {
    size_t count = 0;
    std::array<int64_t, kMostNumbers> key;
    Value value;
  };
  std::array<Entry, kPlaces> entries_{};
};

}  // namespace ashlar::detail

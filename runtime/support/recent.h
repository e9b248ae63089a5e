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
    Entry& entry = place_of(key);
    if (!entry.is(key)) {
      entry.count = 0;
      entry.value = work_out();
      entry.take(key);
    }
    return entry.value;
  }
  /// The value of this key; nullptr where it isn't known.
  const Value* find(std::span<const int64_t> key) {
    const Entry& entry = place_of(key);
    return entry.is(key) ? &entry.value : nullptr;
  }
  void keep(std::span<const int64_t> key, const Value& value) {
    Entry& entry = place_of(key);
    entry.value = value;
    entry.take(key);
  }

 private:
  struct Entry {
    size_t count = 0;
    std::array<int64_t, kMostNumbers> key;
    Value value;

    bool is(std::span<const int64_t> other) const {
      return count == other.size() && std::equal(other.begin(), other.end(), key.begin());
    }
    void take(std::span<const int64_t> other) {
      std::ranges::copy(other, key.begin());
      count = other.size();
    }
  };

  Entry& place_of(std::span<const int64_t> key) {
    // Of two numbers, one is multiplied while the other waits for the numbers before.
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u, kOtherOdd = 0xc2b2ae3d27d4eb4fu;
    uint64_t hash = 0xcbf29ce484222325u + key.size();
    size_t i = 0;
    for (; i + 1 < key.size(); i += 2) {
      hash = (hash ^ static_cast<uint64_t>(key[i])) * kOdd + static_cast<uint64_t>(key[i + 1]) * kOtherOdd;
      hash ^= hash >> 29;
    }
    if (i < key.size()) hash = (hash ^ static_cast<uint64_t>(key[i])) * kOdd;
    return entries_[(hash >> 32) % kPlaces];
  }

  std::array<Entry, kPlaces> entries_{};
};

}  // namespace ashlar::detail

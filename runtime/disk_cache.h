// DiskCache: what was expensive to make, kept in files for later processes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ashlar::detail {

/// One file for each key, in one folder that any number of processes use at once. A file appears whole or not at all,
/// and is believed only if its checksum and its key are right; a damaged one is removed. Where the disk is full or the
/// folder can't be written, entries aren't kept, and that is all.
class DiskCache {
 public:
  /// No folder, no cache. It is made when the first entry is stored.
  explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}

  bool enabled() const { return !folder_.empty(); }
  /// The value stored under `key`, if there is one. Throws std::bad_alloc only.
  std::optional<std::string> load(std::string_view key) const;
  /// Returns whether it was kept. Throws std::bad_alloc only.
  bool store(std::string_view key, std::string_view value) const;
  void remove(std::string_view key) const;

  /// Where an entry lies, for tests.
  std::string file_of(std::string_view key) const;

 private:
  std::string folder_;
};

}  // namespace ashlar::detail

// DiskCache: what was expensive to make, kept in files for later processes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ashlar::detail {

/// One file for each key, in one folder that any number of this user's processes use at once. A file appears whole or
/// not at all. What a driver reads from one can make it crash, so an entry is believed only if this user's processes
/// wrote it: a regular file of the user's in a folder that nobody else may enter, with a keyed checksum of key and
/// value (SipHash-2-4, under a random key that lies beside the entries with mode 0600). Anything else is removed. Where
/// the disk is full, or the folder can't be written or isn't the user's, entries aren't kept, and that is all.
class DiskCache {
 public:
  /// No folder, no cache. It is made when the first entry is stored.
  explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}

  bool enabled() const { return !folder_.empty(); }
  /// The value stored under `key`, if there is one. Throws std::bad_alloc only.
  std::optional<std::string> load(std::string_view key) const;
  /// Returns whether it was kept: at most kMostBytes are. Throws std::bad_alloc only.
  bool store(std::string_view key, std::string_view value) const;
  void remove(std::string_view key) const;

  /// Where an entry lies, for tests.
  std::string file_of(std::string_view key) const;

  static constexpr size_t kMostBytes = size_t{256} << 20;  ///< of an entry's key and value
  static constexpr const char* kSecretFile = "secret";

 private:
  std::string folder_;
};

}  // namespace ashlar::detail

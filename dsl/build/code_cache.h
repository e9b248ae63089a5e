// Compiled code kept between builds, by the digest of all that it was made from. Any number of builds may use a cache
// at once. Nothing is removed from it but by hand: an entry's date is that of its last use (find … -mtime +30).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::dsl {

class CodeCache {
 public:
  CodeCache() = default;
  /// An empty path is a cache that keeps nothing.
  explicit CodeCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Puts an entry's files into `folder`, in place of files of these names. False where there's no such entry.
  bool fetch(const std::string& kind, const std::string& key, const std::filesystem::path& folder) const;
  /// Keeps copies of files.
  void keep(const std::string& kind, const std::string& key, const std::vector<std::filesystem::path>& files) const;

 private:
  std::filesystem::path folder_;
};

/// What identifies this program and the Halide that it runs with: the digest of its file, Halide's build id.
std::string identity_of_program();
std::string identity_of_halide();

}  // namespace ashlar::dsl

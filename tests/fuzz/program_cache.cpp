// The cache of built programs: what lies there may come from anybody, and a driver reads it.
#include <string>

#include "runtime/support/disk_cache.h"
#include "tests/fuzz/targets.h"

namespace ashlar::fuzz {

/// As an entry, which no input becomes by chance, and as a value: it comes back whole, or once it is damaged not at
/// all.
void read_program_cache(Bytes bytes) {
  const std::string folder = file_with(bytes, "unrelated").parent_path() / "cache", key = "key";
  const detail::DiskCache cache(folder);
  const std::string value(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  require(cache.store(key, value), "an entry is kept");
  require(cache.load(key) == value, "a value comes back");

  const std::filesystem::path entry = cache.file_of(key);
  std::filesystem::resize_file(entry, std::filesystem::file_size(entry) - 1);
  require(!cache.load(key), "a shortened entry isn't believed");
  require(!std::filesystem::exists(entry), "it is removed");

  require(cache.store(key, "") && std::filesystem::exists(entry), "another is kept in its place");
  std::filesystem::copy_file(file_with(bytes, "forged"), entry, std::filesystem::copy_options::overwrite_existing);
  require(!cache.load(key), "a forged entry isn't believed");
}

}  // namespace ashlar::fuzz

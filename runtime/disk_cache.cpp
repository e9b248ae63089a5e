#include "runtime/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/environment.h"

namespace ashlar::detail {
namespace {

constexpr char kMagic[8] = {'a', 's', 'h', 'l', 'a', 'r', '0', '1'};

struct Head {
  char magic[8];
  uint64_t key_bytes;
  uint64_t value_bytes;
  uint64_t checksum;  // of key and value
};

/// FNV-1a, 64 bits.
uint64_t hash(std::string_view bytes, uint64_t start = 0xcbf29ce484222325u) {
  for (const char byte : bytes) start = (start ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return start;
}

/// A file descriptor, closed at the end of the scope.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int64_t size() const {
    struct stat status {};
    return ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) ? int64_t{status.st_size} : -1;
  }
  bool read(void* to, size_t bytes) const {
    return transfer(bytes,
                    [&](size_t done) { return ::read(descriptor_, static_cast<char*>(to) + done, bytes - done); });
  }
  bool write(const void* from, size_t bytes) const {
    return transfer(
        bytes, [&](size_t done) { return ::write(descriptor_, static_cast<const char*>(from) + done, bytes - done); });
  }
  /// Some file systems tell only here that the disk is full.
  bool close() {
    const int descriptor = std::exchange(descriptor_, -1);
    return ::close(descriptor) == 0;
  }

 private:
  template <class Step>
  static bool transfer(size_t bytes, Step step) {
    for (size_t done = 0; done < bytes;) {
      const ssize_t count = step(done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      done += static_cast<size_t>(count);
    }
    return true;
  }
  int descriptor_;
};

/// Reads one entry; nothing where it isn't whole or belongs to another key.
std::optional<std::string> read_entry(const File& file, std::string_view key) {
  Head head;
  const int64_t size = file.size();
  if (size < static_cast<int64_t>(sizeof(head)) || !file.read(&head, sizeof(head)) ||
      std::memcmp(head.magic, kMagic, sizeof(kMagic)) != 0 || head.key_bytes != key.size() ||
      head.value_bytes != static_cast<uint64_t>(size) - sizeof(head) - key.size()) {
    return {};
  }
  std::string found(key.size(), '\0'), value(head.value_bytes, '\0');
  if (!file.read(found.data(), found.size()) || !file.read(value.data(), value.size()) || found != key ||
      hash(value, hash(key)) != head.checksum) {
    return {};
  }
  return value;
}

bool write_entry(const std::string& name, std::string_view key, std::string_view value) {
  File file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return false;
  Head head{{}, key.size(), value.size(), hash(value, hash(key))};
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  return file.write(&head, sizeof(head)) && file.write(key.data(), key.size()) &&
         file.write(value.data(), value.size()) && file.close();
}

}  // namespace

std::string DiskCache::file_of(std::string_view key) const {
  char name[40];
  std::snprintf(name, sizeof(name), "/%016llx", static_cast<unsigned long long>(hash(key)));
  return folder_ + name;
}

std::optional<std::string> DiskCache::load(std::string_view key) const {
  if (!enabled()) return {};
  const File file(::open(file_of(key).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return {};
  std::optional<std::string> value = read_entry(file, key);
  if (!value) {
    log("removed a damaged file of the cache: " + file_of(key));
    remove(key);
  }
  return value;
}

bool DiskCache::store(std::string_view key, std::string_view value) const {
  if (!enabled()) return false;
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  // A name of its own first: whoever reads meanwhile sees the old file, or none, or the whole new one.
  static std::atomic<unsigned> serial{0};
  const std::string name = file_of(key),
                    part = name + "." + std::to_string(::getpid()) + "." + std::to_string(serial++);
  if (write_entry(part, key, value) && std::rename(part.c_str(), name.c_str()) == 0) return true;
  log("couldn't write to the cache: " + name + ": " + std::strerror(errno));
  ::unlink(part.c_str());
  return false;
}

void DiskCache::remove(std::string_view key) const { ::unlink(file_of(key).c_str()); }

}  // namespace ashlar::detail

#include "runtime/support/disk_cache.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/launch/kernel.h"
#include "runtime/support/environment.h"
#include "runtime/support/siphash.h"

namespace ashlar::detail {
namespace {

constexpr char kMagic[8] = {'a', 's', 'h', 'l', 'a', 'r', '0', '2'};

struct Head {
  char magic[8];
  uint64_t key_bytes;
  uint64_t value_bytes;
  uint64_t checksum;  // of all the rest, under the folder's secret
};

uint64_t checksum_of(const SipHashKey& secret, const Head& head, std::string_view key, std::string_view value) {
  SipHash sum(secret);
  sum.add({reinterpret_cast<const char*>(&head), offsetof(Head, checksum)});
  sum.add(key);
  sum.add(value);
  return sum.finish();
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
  int descriptor() const { return descriptor_; }
  /// Bytes of a regular file that only this user may read and write; -1 of anything else.
  int64_t size() const {
    struct stat status {};
    const bool is_ours = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) &&
                         status.st_uid == ::geteuid() && (status.st_mode & 0077) == 0;
    return is_ours ? int64_t{status.st_size} : -1;
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

/// The folder, if it's this user's; closed to everybody else where it wasn't.
File open_folder(const std::string& name) {
  const int folder = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat status {};
  const bool is_ours = folder >= 0 && ::fstat(folder, &status) == 0 && status.st_uid == ::geteuid() &&
                       ((status.st_mode & 0077) == 0 || ::fchmod(folder, 0700) == 0);
  if (is_ours || folder < 0) return File(folder);
  ::close(folder);
  return File(-1);
}

/// Opened without waiting for what may stand there in a file's place: a FIFO has a writer or not, a link is refused.
int open_to_read(const File& folder, const char* name) {
  return ::openat(folder.descriptor(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

int open_new(const File& folder, const char* name) {
  return ::openat(folder.descriptor(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/// What no other process of this user writes to.
std::string part_of(const std::string& name) {
  static std::atomic<unsigned> serial{0};
  return name + "." + std::to_string(::getpid()) + "." + std::to_string(serial++);
}

std::optional<SipHashKey> read_secret(const File& folder) {
  SipHashKey secret;
  const File file(open_to_read(folder, DiskCache::kSecretFile));
  if (!file.is_open() || file.size() != sizeof(secret) || !file.read(&secret, sizeof(secret))) return {};
  return secret;
}

/// The folder's secret, made by whoever is first. What stands in its place and isn't one is removed.
std::optional<SipHashKey> make_secret(const File& folder) {
  if (const auto secret = read_secret(folder)) return secret;
  SipHashKey made;
  if (::getrandom(&made, sizeof(made), 0) != sizeof(made)) return {};
  const std::string part = part_of(DiskCache::kSecretFile);
  File file(open_new(folder, part.c_str()));
  if (file.is_open() && file.write(&made, sizeof(made)) && file.close()) {
    const auto publish = [&] {
      return ::linkat(folder.descriptor(), part.c_str(), folder.descriptor(), DiskCache::kSecretFile, 0) == 0;
    };
    if (!publish() && !read_secret(folder)) {
      ::unlinkat(folder.descriptor(), DiskCache::kSecretFile, 0);
      publish();
    }
  }
  ::unlinkat(folder.descriptor(), part.c_str(), 0);
  return read_secret(folder);
}

/// Reads one entry; nothing where it isn't whole, isn't ours or belongs to another key.
std::optional<std::string> read_entry(const File& folder, const File& file, std::string_view key) {
  Head head;
  const int64_t size = file.size();
  if (size < static_cast<int64_t>(sizeof(head)) || size > static_cast<int64_t>(sizeof(head) + DiskCache::kMostBytes) ||
      !file.read(&head, sizeof(head)) || std::memcmp(head.magic, kMagic, sizeof(kMagic)) != 0 ||
      head.key_bytes != key.size() || head.value_bytes != static_cast<uint64_t>(size) - sizeof(head) - key.size()) {
    return {};
  }
  std::string found(key.size(), '\0'), value(head.value_bytes, '\0');
  const std::optional<SipHashKey> secret = read_secret(folder);
  if (!secret || !file.read(found.data(), found.size()) || !file.read(value.data(), value.size()) || found != key ||
      checksum_of(*secret, head, key, value) != head.checksum) {
    return {};
  }
  return value;
}

bool write_entry(const File& folder, const std::string& name, std::string_view key, std::string_view value) {
  const std::optional<SipHashKey> secret = make_secret(folder);
  if (!secret) return false;
  File file(open_new(folder, name.c_str()));
  if (!file.is_open()) return false;
  Head head{{}, key.size(), value.size(), 0};
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  head.checksum = checksum_of(*secret, head, key, value);
  return file.write(&head, sizeof(head)) && file.write(key.data(), key.size()) &&
         file.write(value.data(), value.size()) && file.close();
}

std::string name_of(std::string_view key) {
  char name[24];
  std::snprintf(name, sizeof(name), "%016llx", static_cast<unsigned long long>(identity_hash(key)));
  return name;
}

}  // namespace

std::string DiskCache::file_of(std::string_view key) const { return folder_ + "/" + name_of(key); }

std::optional<std::string> DiskCache::load(std::string_view key) const {
  if (!enabled()) return {};
  const File folder = open_folder(folder_);
  if (!folder.is_open()) return {};
  const std::string name = name_of(key);
  const File file(open_to_read(folder, name.c_str()));
  if (!file.is_open() && errno == ENOENT) return {};
  std::optional<std::string> value;
  if (file.is_open()) value = read_entry(folder, file, key);
  if (!value) {
    log("removed what isn't an entry of the cache: " + file_of(key));
    ::unlinkat(folder.descriptor(), name.c_str(), 0);
  }
  return value;
}

bool DiskCache::store(std::string_view key, std::string_view value) const {
  if (!enabled() || key.size() > kMostBytes || value.size() > kMostBytes - key.size()) return false;
  std::error_code failure;
  std::filesystem::create_directories(std::filesystem::path(folder_).parent_path(), failure);
  ::mkdir(folder_.c_str(), 0700);
  const File folder = open_folder(folder_);
  // A name of its own first: whoever reads meanwhile sees the old file, or none, or the whole new one.
  const std::string name = name_of(key), part = part_of(name);
  const int at = folder.descriptor();
  if (folder.is_open() && write_entry(folder, part, key, value) &&
      ::renameat(at, part.c_str(), at, name.c_str()) == 0) {
    return true;
  }
  log("couldn't write to the cache: " + file_of(key) + ": " + std::strerror(errno));
  if (folder.is_open()) ::unlinkat(at, part.c_str(), 0);
  return false;
}

void DiskCache::remove(std::string_view key) const { ::unlink(file_of(key).c_str()); }

}  // namespace ashlar::detail

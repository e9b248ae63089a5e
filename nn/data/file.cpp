#include "nn/data/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "nn/data/host_memory.h"
#include "runtime/support/environment.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

using std::filesystem::path;

constexpr size_t kChunk = size_t{1} << 16;
constexpr int kMostLinks = 40;      // as many as Linux follows
constexpr size_t kNameBytes = 200;  // of the file's name in the temporary one, which may have 255
constexpr size_t kRandomDigits = 16;

[[noreturn]] void refuse(const char* operation, const path& file, int error) {
  throw WriteError(operation, file, std::generic_category().message(error));
}

[[noreturn]] void unreadable(const char* operation, const path& file, const std::string& why) {
  throw DataError(operation, file.string() + ", which can't be read: " + why, "a readable file",
                  "Check the path and its permissions");
}

[[noreturn]] void unreadable(const char* operation, const path& file, int error) {
  unreadable(operation, file, std::generic_category().message(error));
}

/// A file descriptor, closed at the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

path folder_of(const path& file) { return file.has_parent_path() ? file.parent_path() : path("."); }

/// Somebody else's link in a folder where everybody may write (/tmp): the kernel doesn't follow such a one either.
bool is_planted(const path& link, const struct stat& of_link) {
  struct stat folder {};
  if (::stat(folder_of(link).c_str(), &folder) != 0) return true;
  return (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWOTH) != 0 && of_link.st_uid != ::geteuid() &&
         of_link.st_uid != folder.st_uid;
}

/// What `file` names once symbolic links are followed; it need not be there.
path behind_links(const char* operation, const path& file) {
  path target = file;
  for (int links = 0; links <= kMostLinks; links++) {
    struct stat status {};
    if (::lstat(target.c_str(), &status) != 0) {
      if (errno != ENOENT) refuse(operation, file, errno);
      return target;
    }
    if (!S_ISLNK(status.st_mode)) return target;
    if (is_planted(target, status))
      throw WriteError(operation, file, "a symbolic link of another user in a shared folder");
    std::error_code failure;
    const path next = std::filesystem::read_symlink(target, failure);
    if (failure) refuse(operation, file, failure.value());
    target = next.is_absolute() ? next : folder_of(target) / next;
  }
  refuse(operation, file, ELOOP);
}

/// Whether there is an old file to be replaced. Refuses what must not be.
bool is_replaceable(const char* operation, const path& file, const path& target, struct stat& old) {
  if (::lstat(target.c_str(), &old) != 0) {
    if (errno != ENOENT) refuse(operation, file, errno);
    return false;
  }
  if (S_ISDIR(old.st_mode)) refuse(operation, file, EISDIR);
  if (!S_ISREG(old.st_mode)) throw WriteError(operation, file, "a device, pipe or socket");
  if (::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0) refuse(operation, file, errno);
  return true;
}

std::string temporary_prefix(const path& target) {
  return std::string(1, '.').append(target.filename().native(), 0, kNameBytes).append(".part-");
}

std::string random_digits() {
  std::random_device random;
  char text[kRandomDigits + 1];
  std::snprintf(text, sizeof text, "%08x%08x", random(), random());
  return text;
}

bool is_temporary(std::string_view name, std::string_view prefix) {
  return name.size() == prefix.size() + kRandomDigits && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string_view::npos;
}

}  // namespace

uint64_t read_limit() { return detail::environment().read_limit; }

std::vector<uint8_t> read_file(const char* operation, const path& file, uint64_t limit) {
  return with_host_memory(operation, file.string(), [&] {
    const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!in.is_open() || ::fstat(in.number(), &status) != 0) unreadable(operation, file, errno);
    std::vector<uint8_t> bytes;
    const uint64_t known = S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;  // 0 in /proc, too
    const size_t room = std::max<size_t>(known <= limit ? known + 1 : 0, kChunk);  // one more, to see the end
    while (true) {
      if (std::max<uint64_t>(known, bytes.size()) > limit) {
        throw DataError(operation, file.string() + ", which has more than " + std::to_string(limit) + " bytes",
                        "at most that many", "Set ASHLAR_READ_LIMIT to a larger number of bytes if the file is sound");
      }
      const size_t before = bytes.size();
      if (before == bytes.capacity()) bytes.reserve(before == 0 ? room : 2 * before);
      bytes.resize(std::min(bytes.capacity(), before + room));
      const ssize_t count = ::read(in.number(), bytes.data() + before, bytes.size() - before);
      bytes.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) unreadable(operation, file, errno);
      if (count == 0) return bytes;
    }
  });
}

InputFile::InputFile(const char* operation, path file) : operation_(operation), file_(std::move(file)) {
  // Without waiting for the writer of a pipe, which is refused anyway.
  descriptor_ = ::open(file_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status {};
  if (descriptor_ < 0) unreadable(operation, file_, errno);
  const bool is_regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_regular) ::close(descriptor_);
  if (!is_regular) unreadable(operation, file_, "no regular file");
  size_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read_at(uint64_t offset, std::span<uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) unreadable(operation_, file_, errno);
    if (count == 0) unreadable(operation_, file_, "it became shorter meanwhile");
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

AtomicFile::AtomicFile(const char* operation, const path& file)
    : operation_(operation), file_(file), target_(behind_links(operation, file)) {
  if (!target_.has_filename()) fail(ENOENT);
  struct stat old {};
  const bool is_replacement = is_replaceable(operation, file, target_, old);
  while (!create(is_replacement)) {
  }
  try {
    if (is_replacement) {
      // The owner first: changing it takes bits from the mode. Only root may; others' new file is their own.
      const mode_t kept = ::fchown(descriptor_, old.st_uid, old.st_gid) == 0 ? 07777 : 0777;
      if (::fchmod(descriptor_, old.st_mode & kept) != 0) fail(errno);
    }
    remove_stale();
  } catch (...) {
    discard();
    throw;
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

void AtomicFile::fail(int error) const { refuse(operation_, file_, error); }

/// Makes the temporary file and locks it, which tells remove_stale() of others that its writer is alive. False: such
/// a one came in between and removed it.
bool AtomicFile::create(bool is_replacement) {
  temporary_ = folder_of(target_) / (temporary_prefix(target_) + random_digits());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  descriptor_ = ::open(temporary_.c_str(), kFlags, is_replacement ? 0600 : 0666);
  if (descriptor_ < 0 && errno == EEXIST) return false;
  if (descriptor_ < 0) fail(errno);
  const bool is_contended = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  struct stat status {};
  if (!is_contended && (::fstat(descriptor_, &status) != 0 || status.st_nlink > 0)) return true;
  discard();
  return false;
}

/// Removes temporary files of this target whose writers are dead: nobody holds their lock.
void AtomicFile::remove_stale() const {
  const std::string prefix = temporary_prefix(target_);
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(folder_of(target_), failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (!is_temporary(entry->path().filename().native(), prefix)) continue;
    const Descriptor left(::open(entry->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (left.is_open() && ::fstat(left.number(), &status) == 0 && S_ISREG(status.st_mode) &&
        ::flock(left.number(), LOCK_EX | LOCK_NB) == 0) {
      ::unlink(entry->path().c_str());
    }
  }
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written == 0 ? ENOSPC : errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0 || ::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  // Some file systems tell only at closing that the disk is full; after fsync they have nothing left to tell.
  ::close(std::exchange(descriptor_, -1));
  // The new name is on disk only with its folder. Some folders can't be opened or flushed; an error of the disk counts.
  const Descriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open() && ::fsync(folder.number()) != 0 && errno == EIO) fail(EIO);
}

void check_writable(const char* operation, const path& file) { const AtomicFile trial(operation, file); }

void write_file_atomically(const char* operation, const path& file,
                           std::initializer_list<std::span<const uint8_t>> parts) {
  AtomicFile out(operation, file);
  for (const std::span<const uint8_t> part : parts) out.write(part);
  out.commit();
}

}  // namespace ashlar::nn

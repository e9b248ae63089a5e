#include "nn/data/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <string>
#include <system_error>

#include "runtime/error.h"

namespace ashlar::nn {
namespace {

[[noreturn]] void write_failed(const char* operation, const std::filesystem::path& file, int error) {
  throw DataError(operation, file.string() + ": " + std::generic_category().message(error),
                  "a file that can be written", "Check the folder, its permissions and the free space");
}

/// A file under a temporary name; removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  ~TemporaryFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
      ::unlink(path_.c_str());
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool open() const { return descriptor_ >= 0; }
  bool write(std::span<const uint8_t> bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return true;
  }
  bool rename_to(const std::filesystem::path& target) {
    if (::fsync(descriptor_) != 0 || ::rename(path_.c_str(), target.c_str()) != 0) return false;
    ::close(descriptor_);
    descriptor_ = -1;
    return true;
  }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace

std::vector<uint8_t> read_file(const char* operation, const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<uint8_t> bytes;
  char chunk[1 << 16];
  while (stream.read(chunk, sizeof chunk) || stream.gcount() > 0) {
    bytes.insert(bytes.end(), chunk, chunk + stream.gcount());
  }
  if (stream.bad() || !stream.eof()) {
    throw DataError(operation, file.string() + ", which can't be read", "a readable file",
                    "Check the path and its permissions");
  }
  return bytes;
}

void write_file_atomically(const char* operation, const std::filesystem::path& file,
                           std::initializer_list<std::span<const uint8_t>> parts) {
  std::filesystem::path beside = file;
  beside += ".part-" + std::to_string(::getpid());
  TemporaryFile temporary(beside);
  if (!temporary.open()) write_failed(operation, beside, errno);
  for (const std::span<const uint8_t> part : parts) {
    if (!temporary.write(part)) write_failed(operation, beside, errno);
  }
  if (!temporary.rename_to(file)) write_failed(operation, file, errno);
}

}  // namespace ashlar::nn

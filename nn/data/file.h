// Whole files in and out, with errors as DataError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace ashlar::nn {

/// What read_file() reads at most, in bytes: ASHLAR_READ_LIMIT, else 2 GiB.
uint64_t read_limit();

/// All bytes of `file`. Throws DataError naming `operation` when it can't be read or has more than `limit` bytes, and
/// OutOfMemory when it doesn't fit into memory.
std::vector<uint8_t> read_file(const char* operation, const std::filesystem::path& file, uint64_t limit = read_limit());

/// The next version of a file, written under another name beside it. At commit() it takes the file's place at once: a
/// reader sees the old file or the new one, whole, whoever else writes meanwhile. Without commit() nothing has changed.
///
/// The old file's permissions stay, and a symbolic link stays one: what it points to is replaced. Files that writers
/// left behind when they were killed (".NAME.part-" and 16 hexadecimal digits) are removed.
class AtomicFile {
 public:
  /// Throws DataError naming `operation` when `file` can't be written: no such folder, no permission, a read-only file,
  /// a folder, device or pipe of that name, a link that somebody else put into a folder where everybody may write.
  AtomicFile(const char* operation, const std::filesystem::path& file);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws DataError when the disk refuses.
  void write(std::span<const uint8_t> bytes);
  /// Flushes to disk and takes the file's place. Throws DataError; the old file, if any, is then untouched, except when
  /// the disk failed while it wrote down the new name.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;
  bool create(bool is_replacement);
  void remove_stale() const;
  void discard();

  const char* operation_;
  std::filesystem::path file_;       ///< as the caller calls it
  std::filesystem::path target_;     ///< behind symbolic links
  std::filesystem::path temporary_;  ///< beside target_
  int descriptor_ = -1;
};

/// Throws the DataError with which AtomicFile would refuse `file`; changes nothing. For a program that wants to know
/// before hours of work whether it can save the result.
void check_writable(const char* operation, const std::filesystem::path& file);

/// Writes `parts` one after another as an AtomicFile. Throws DataError; the old file, if any, is then untouched.
void write_file_atomically(const char* operation, const std::filesystem::path& file,
                           std::initializer_list<std::span<const uint8_t>> parts);

}  // namespace ashlar::nn

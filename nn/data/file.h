// Whole files in and out, with errors as DataError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "runtime/support/error.h"

namespace ashlar::nn {

/// A file that couldn't be written. Whoever has the data still has it, and may try another place.
struct WriteError : DataError {
  WriteError(const char* operation, const std::filesystem::path& file, const std::string& why,
             const std::string& remedy = "Check the folder, its permissions and the free space")
      : DataError(operation, file.string() + ": " + why, "a file that can be written", remedy), reason(why) {}
  std::string reason;  ///< without the file's name
};

/// What read_file() reads at most, in bytes: ASHLAR_READ_LIMIT, else 2 GiB.
uint64_t read_limit();

/// All bytes of `file`. Throws DataError naming `operation` when it can't be read or has more than `limit` bytes, and
/// OutOfMemory when it doesn't fit into memory.
std::vector<uint8_t> read_file(const char* operation, const std::filesystem::path& file, uint64_t limit = read_limit());

/// A regular file that is read piece by piece.
class InputFile {
 public:
  /// Throws DataError naming `operation` when it can't be read or isn't a regular file.
  InputFile(const char* operation, std::filesystem::path file);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  uint64_t size() const { return size_; }  ///< when it was opened
  /// Fills `bytes` from `offset` on. Throws DataError when the file ends before or can't be read.
  void read_at(uint64_t offset, std::span<uint8_t> bytes) const;

 private:
  const char* operation_;
  std::filesystem::path file_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

/// The next version of a file, written under another name beside it. At commit() it takes the file's place at once: a
/// reader sees the old file or the new one, whole, whoever else writes meanwhile. Without commit() nothing has changed.
///
/// The old file's permissions stay, and a symbolic link stays one: what it points to is replaced. Files that writers
/// left behind when they were killed (".NAME.part-" and 16 hexadecimal digits) are removed.
class AtomicFile {
 public:
  /// Throws WriteError naming `operation` when `file` can't be written: no such folder, no permission, a read-only
  /// file, a folder, device or pipe of that name, a link that somebody else put into a folder where everybody may
  /// write.
  AtomicFile(const char* operation, const std::filesystem::path& file);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws WriteError when the disk refuses.
  void write(std::span<const uint8_t> bytes);
  /// Flushes to disk and takes the file's place. Throws WriteError; the old file, if any, is then untouched, except
  /// when the disk failed while it wrote down the new name.
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

/// Throws the WriteError with which AtomicFile would refuse `file`; changes nothing. For a program that wants to know
/// before hours of work whether it can save the result.
void check_writable(const char* operation, const std::filesystem::path& file);

/// Writes `parts` one after another as an AtomicFile. Throws WriteError; the old file, if any, is then untouched.
void write_file_atomically(const char* operation, const std::filesystem::path& file,
                           std::initializer_list<std::span<const uint8_t>> parts);

}  // namespace ashlar::nn

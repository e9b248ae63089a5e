#include "nn/data/npz.h"

#include <minizip/unzip.h>
#include <minizip/zip.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <memory>
#include <set>

#include "nn/data/byte_source.h"
#include "nn/data/host_memory.h"
#include "nn/data/npy.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kRead = "read_npz";
constexpr const char* kWrite = "write_npz";
constexpr std::string_view kSuffix = ".npy";
constexpr uint64_t kMostDeflated = 1032;    // bytes that a deflated byte can become (RFC 1951: runs of 258 in 2 bits)
constexpr size_t kPiece = size_t{1} << 30;  // for minizip, which counts in 32 bits

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

[[noreturn]] void damaged(const std::string& name, const std::string& came, const std::string& needed) {
  throw DataError(kRead, name + ": " + came, needed, "Write it with numpy.savez from arrays of numbers");
}

/// Minizip's view of a file, in memory or not. Its functions are called from C: what they throw waits in `failure`.
struct ZipFile {
  const ByteSource* source = nullptr;  // what is read
  std::vector<uint8_t> written;        // what is written
  uint64_t position = 0;
  bool is_short = false;  // something was wanted beyond the end, which minizip takes for zeros at places
  std::exception_ptr failure;

  uint64_t size() const { return source != nullptr ? source->size : written.size(); }
  zlib_filefunc64_def functions();
  void rethrow() const {
    if (failure) std::rethrow_exception(failure);
  }
};

ZipFile& file_of(voidpf stream) { return *static_cast<ZipFile*>(stream); }

uLong read_some(voidpf /*opaque*/, voidpf stream, void* to, uLong count) noexcept {
  ZipFile& file = file_of(stream);
  try {
    const uint64_t left = file.size() - std::min(file.position, file.size());
    const std::span<uint8_t> bytes(static_cast<uint8_t*>(to), std::min<uint64_t>(count, left));
    if (file.source != nullptr) {
      file.source->read_at(file.position, bytes);
    } else {
      std::copy_n(file.written.begin() + static_cast<std::ptrdiff_t>(file.position), bytes.size(), bytes.begin());
    }
    file.position += bytes.size();
    file.is_short = file.is_short || bytes.size() < count;
    return bytes.size();
  } catch (...) {
    file.failure = std::current_exception();
    return 0;
  }
}

uLong write_some(voidpf /*opaque*/, voidpf stream, const void* from, uLong count) noexcept {
  ZipFile& file = file_of(stream);
  try {
    if (file.written.size() < file.position + count) file.written.resize(file.position + count);
    std::copy_n(static_cast<const uint8_t*>(from), count,
                file.written.begin() + static_cast<std::ptrdiff_t>(file.position));
    file.position += count;
    return count;
  } catch (...) {
    file.failure = std::current_exception();
    return 0;
  }
}

long seek(voidpf /*opaque*/, voidpf stream, ZPOS64_T offset, int origin) noexcept {
  ZipFile& file = file_of(stream);
  const uint64_t from = origin == ZLIB_FILEFUNC_SEEK_CUR   ? file.position
                        : origin == ZLIB_FILEFUNC_SEEK_END ? file.size()
                                                           : 0;
  if (offset > file.size() || from > file.size() - offset) return -1;
  file.position = from + offset;
  return 0;
}

zlib_filefunc64_def ZipFile::functions() {
  return {
      .zopen64_file = [](voidpf opaque, const void*, int) { return opaque; },
      .zread_file = read_some,
      .zwrite_file = write_some,
      .ztell64_file = [](voidpf, voidpf stream) -> ZPOS64_T { return file_of(stream).position; },
      .zseek64_file = seek,
      .zclose_file = [](voidpf, voidpf) { return 0; },
      .zerror_file = [](voidpf, voidpf stream) -> int { return file_of(stream).failure || file_of(stream).is_short; },
      .opaque = this};
}

class ZipReader {
 public:
  explicit ZipReader(const ByteSource& source) : name_(source.name) {
    file_.source = &source;
    auto functions = file_.functions();
    open_.reset(unzOpen2_64("", &functions));
    zip_ = open_.get();
    file_.rethrow();
    if (zip_ == nullptr || file_.is_short)
      damaged(name_, std::to_string(source.size) + " bytes", "a zip file with its directory");
  }

  NamedTensors read_all() {
    unz_global_info64 info{};
    unzGetGlobalInfo64(zip_, &info);
    NamedTensors result;
    std::set<std::string> names;
    for (uint64_t i = 0; i < info.number_entry; i++) {
      check(i == 0 ? unzGoToFirstFile(zip_) : unzGoToNextFile(zip_), "its directory");
      std::string key = open_member();
      if (!names.insert(key).second) damaged(name_, "two members '" + key + "'", "each name once");
      result.emplace_back(std::move(key), read_member());
    }
    return result;
  }

 private:
  void check(int status, const std::string& what) const {
    file_.rethrow();
    if (status != UNZ_OK || file_.is_short)
      damaged(name_, "damage in " + what + " (" + std::to_string(status) + ")", "a whole zip file");
  }

  /// Its key. What the directory says is held against what the file has before anything is made of that size.
  std::string open_member() {
    char text[512];
    check(unzGetCurrentFileInfo64(zip_, &member_, text, sizeof text, nullptr, 0, nullptr, 0), "its directory");
    if (member_.size_filename >= sizeof text) damaged(name_, "a member with a long name", "less than 512 bytes");
    const std::string file_name(text, member_.size_filename);
    member_name_ = name_ + "/" + file_name;
    if (!file_name.ends_with(kSuffix)) damaged(name_, "a member '" + file_name + "'", "members that are .npy");
    if ((member_.flag & 1) != 0) damaged(member_name_, "an encrypted member", "a readable one");
    const bool is_stored = member_.compression_method == 0;
    if (!is_stored && member_.compression_method != Z_DEFLATED) {
      damaged(member_name_, "packing method " + std::to_string(member_.compression_method), "none, or deflate (8)");
    }
    // Members that share their bytes could become the square of the file's size.
    const bool is_inside = member_.compressed_size <= file_.size() - packed_;
    packed_ += is_inside ? member_.compressed_size : 0;
    const bool fits = is_stored ? member_.uncompressed_size == member_.compressed_size
                                : member_.uncompressed_size / kMostDeflated <= member_.compressed_size;
    if (!is_inside || !fits) {
      damaged(
          member_name_,
          std::to_string(member_.uncompressed_size) + " bytes, packed into " + std::to_string(member_.compressed_size),
          "what the file holds");
    }
    unpacked_ += is_stored ? 0 : member_.uncompressed_size;
    if (unpacked_ > read_limit()) {
      damaged(member_name_, "packed data of " + std::to_string(unpacked_) + " bytes",
              "at most " + std::to_string(read_limit()) + ", or more in ASHLAR_READ_LIMIT if the file is sound");
    }
    return file_name.substr(0, file_name.size() - kSuffix.size());
  }

  Tensor read_member() {
    check(unzOpenCurrentFile(zip_), member_name_);
    Tensor tensor = read_npy_stream(member_name_, member_.uncompressed_size, [this](std::span<uint8_t> bytes) {
      while (!bytes.empty()) {
        const int count = unzReadCurrentFile(zip_, bytes.data(), static_cast<unsigned>(std::min(bytes.size(), kPiece)));
        if (count <= 0) check(count == 0 ? UNZ_BADZIPFILE : count, member_name_);
        bytes = bytes.subspan(static_cast<size_t>(count));
      }
    });
    check(unzCloseCurrentFile(zip_), member_name_);  // compares the checksum
    return tensor;
  }

  const std::string name_;
  ZipFile file_;  // outlives what minizip has open
  std::unique_ptr<void, decltype([](unzFile zip) { unzClose(zip); })> open_;
  unzFile zip_ = nullptr;
  unz_file_info64 member_{};
  std::string member_name_;
  uint64_t packed_ = 0, unpacked_ = 0;
};

NamedTensors read_from(const ByteSource& source) {
  return with_host_memory(kRead, source.name, [&] {
    // Minizip takes a directory at offset 0, of an archive without members, for none.
    std::array<uint8_t, 22> end{'P', 'K', 5, 6}, all{};
    if (source.size == all.size()) source.read_at(0, all);
    return all == end ? NamedTensors{} : ZipReader(source).read_all();
  });
}

/// The archive's bytes.
std::vector<uint8_t> archive_of(const NamedTensors& tensors, bool compressed) {
  ZipFile file;
  auto functions = file.functions();
  std::unique_ptr<void, decltype([](zipFile open) { zipClose(open, nullptr); })> guard(
      zipOpen2_64("", APPEND_STATUS_CREATE, nullptr, &functions));
  zipFile zip = guard.get();
  const auto check = [&file](int status) {
    file.rethrow();
    if (status != ZIP_OK) throw DataError(kWrite, "minizip's status " + std::to_string(status), "success", "");
  };
  check(zip == nullptr ? ZIP_INTERNALERROR : ZIP_OK);
  for (const auto& [key, tensor] : tensors) {
    const std::string header = npy_header_of(tensor);
    const Tensor dense = tensor.to(Device::cpu()).contiguous();
    zip_fileinfo info{};
    info.tmz_date.tm_year = 1980;  // the first that the format has: equal tensors make equal files
    info.tmz_date.tm_mday = 1;
    constexpr uLong kUtf8 = 1 << 11;
    constexpr int kDefaultMemory = 8;
    const int is_large = dense.bytes() + 4096 > std::numeric_limits<int32_t>::max() ? 1 : 0;
    check(zipOpenNewFileInZip4_64(zip, (key + std::string(kSuffix)).c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                                  compressed ? Z_DEFLATED : 0, Z_DEFAULT_COMPRESSION, 0, -MAX_WBITS, kDefaultMemory,
                                  Z_DEFAULT_STRATEGY, nullptr, 0, 0, kUtf8, is_large));
    check(zipWriteInFileInZip(zip, header.data(), static_cast<unsigned>(header.size())));
    const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(dense.data()), static_cast<size_t>(dense.bytes()));
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      check(zipWriteInFileInZip(zip, bytes.data() + at, static_cast<unsigned>(std::min(kPiece, bytes.size() - at))));
    }
    check(zipCloseFileInZip(zip));
  }
  check(zipClose(guard.release(), nullptr));  // writes the directory
  return std::move(file.written);
}

}  // namespace

NamedTensors parse_npz(std::span<const uint8_t> bytes, const std::string& name) {
  return read_from(source_of(bytes, name));
}

NamedTensors read_npz(const std::filesystem::path& file) { return read_source(kRead, file, read_from); }

void write_npz(const std::filesystem::path& file, const NamedTensors& tensors, bool compressed) {
  std::set<std::string> names;
  for (const auto& [key, tensor] : tensors) {
    if (key.empty() || key.size() > 500 || key.find('\0') != std::string::npos || !names.insert(key).second) {
      throw ValueError(kWrite, "the name '" + key + "'", "names of 1 to 500 bytes, none of them zero, each name once",
                       "Name the arrays as numpy.savez does: arr_0, arr_1");
    }
  }
  with_host_memory(kWrite, file.string(), [&] {
    const std::vector<uint8_t> bytes = archive_of(tensors, compressed);
    write_file_atomically(kWrite, file, {bytes});
  });
}

}  // namespace ashlar::nn

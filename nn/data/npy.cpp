#include "nn/data/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/data/byte_source.h"
#include "nn/data/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kRead = "read_npy";
constexpr const char* kWrite = "write_npy";
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostHeader = 1 << 16;  // of an array without named fields; NumPy itself refuses more than 10000
constexpr size_t kAlignment = 64;        // of the elements in a file that is written

static_assert(std::endian::native == std::endian::little);

[[noreturn]] void damaged(const std::string& name, const std::string& came, const std::string& needed) {
  throw DataError(kRead, name + ": " + came, needed, "Write it with numpy.save from an array of numbers");
}

struct ElementType {
  DType dtype;
  std::string_view code;  // kind and bytes
};
constexpr ElementType kElementTypes[] = {{DType::f16, "f2"}, {DType::f32, "f4"},    {DType::f64, "f8"},
                                         {DType::u8, "u1"},  {DType::u16, "u2"},    {DType::u32, "u4"},
                                         {DType::i8, "i1"},  {DType::i16, "i2"},    {DType::i32, "i4"},
                                         {DType::i64, "i8"}, {DType::boolean, "b1"}};

struct Header {
  DType dtype = DType::f32;
  bool is_big_endian = false;
  bool is_fortran = false;
  Shape shape;
};

/// A header is the text of a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  Header parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !has_type_) {
        type();
      } else if (key == "fortran_order" && !has_order_) {
        order();
      } else if (key == "shape" && !has_shape_) {
        shape();
      } else {
        damaged(name_, "a header with the key '" + std::string(key) + "'", "descr, fortran_order and shape, each once");
      }
      if (!accept(',') && peek() != '}') malformed();
    }
    skip_spaces();
    if (!rest_.empty() || !has_type_ || !has_order_ || !has_shape_) malformed();
    return header_;
  }

 private:
  [[noreturn]] void malformed() const {
    damaged(name_, "a header that goes on with \"" + std::string(rest_.substr(0, 40)) + "\"",
            "{'descr': …, 'fortran_order': …, 'shape': …}");
  }
  void skip_spaces() {
    const size_t count = rest_.find_first_not_of(" \t\n\r");
    rest_.remove_prefix(std::min(count, rest_.size()));
  }
  char peek() {
    skip_spaces();
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool accept(char c) {
    if (rest_.empty() || peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }
  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed();
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) malformed();
    const std::string_view value = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return value;
  }
  void type() {
    if (peek() == '[') damaged(name_, "an array of records", "an array of numbers");
    const std::string_view code = string();
    const std::string_view order = "<>|=";
    const auto* found =
        std::ranges::find(kElementTypes, code.substr(std::min<size_t>(1, code.size())), &ElementType::code);
    if (code.empty() || order.find(code[0]) == std::string_view::npos || found == std::end(kElementTypes)) {
      damaged(name_, "elements of type '" + std::string(code) + "'",
              "b1, i1, i2, i4, i8, u1, u2, u4, f2, f4 or f8, as NumPy writes them");
    }
    header_.dtype = found->dtype;
    header_.is_big_endian = code[0] == '>';
    has_type_ = true;
  }
  void order() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      header_.is_fortran = word == "True";
      has_order_ = true;
      return;
    }
    malformed();
  }
  void shape() {
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      int64_t size = -1;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc() || size < 0) malformed();
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      if (header_.shape.rank() == kMaxRank) {
        damaged(name_, "an array of more than " + std::to_string(kMaxRank) + " dimensions", "no more");
      }
      header_.shape.push_back(size);
      accept('L');  // as Python 2 wrote long integers
      if (!accept(',') && peek() != ')') malformed();
    }
    has_shape_ = true;
  }

  std::string_view rest_;
  const std::string& name_;
  Header header_;
  bool has_type_ = false, has_order_ = false, has_shape_ = false;
};

/// Bytes of the elements; nothing beyond what memory can address.
std::optional<uint64_t> bytes_of(const Header& header) {
  if (std::ranges::find(header.shape, 0) != header.shape.end()) return 0;
  int64_t total = size_of(header.dtype);
  for (const int64_t size : header.shape) {
    if (__builtin_mul_overflow(total, size, &total)) return std::nullopt;
  }
  return static_cast<uint64_t>(total);
}

/// Elements stored column by column, in row-major order. Without a kernel, of which a program links some dtypes only.
Tensor rows_of(std::span<const uint8_t> columns, const Header& header) {
  const Shape& shape = header.shape;
  const Tensor result = Tensor::empty(shape, header.dtype);
  const int64_t width = size_of(header.dtype);
  Shape strides = shape, place = Shape::filled(shape.rank(), 0);  // strides in bytes of `columns`
  int64_t stride = width;
  for (int axis = 0; axis < shape.rank(); axis++) strides[axis] = std::exchange(stride, stride * shape[axis]);
  auto* to = static_cast<uint8_t*>(result.data());
  int64_t from = 0;
  for (size_t done = 0; done < columns.size(); done += static_cast<size_t>(width), to += width) {
    std::memcpy(to, columns.data() + from, static_cast<size_t>(width));
    for (int axis = shape.rank() - 1; axis >= 0; axis--) {
      from += strides[axis];
      if (++place[axis] < shape[axis]) break;
      from -= strides[axis] * std::exchange(place[axis], 0);
    }
  }
  return result;
}

void swap_bytes(std::span<uint8_t> bytes, int64_t width) {
  for (auto at = bytes.begin(); at != bytes.end(); at += width) std::reverse(at, at + width);
}

}  // namespace

Tensor read_npy_stream(const std::string& name, uint64_t size, const std::function<void(std::span<uint8_t>)>& read) {
  constexpr size_t kVersionEnd = 8;
  uint64_t rest = size;
  const auto take = [&](std::span<uint8_t> bytes) {
    if (bytes.size() > rest) damaged(name, std::to_string(size) + " bytes", "a whole header");
    rest -= bytes.size();
    read(bytes);
  };
  uint8_t start[kVersionEnd];
  take(start);
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0) damaged(name, "another first byte", "\\x93NUMPY");
  const int major = start[6], minor = start[7];
  if (major < 1 || major > 3 || minor != 0) {
    damaged(name, "format " + std::to_string(major) + "." + std::to_string(minor), "1.0, 2.0 or 3.0");
  }
  uint8_t length_bytes[4] = {};
  take(std::span(length_bytes).first(major == 1 ? 2 : 4));
  const auto length = std::bit_cast<uint32_t>(length_bytes);
  if (length > kMostHeader) {
    damaged(name, "a header of " + std::to_string(length) + " bytes", "at most " + std::to_string(kMostHeader));
  }
  std::string text(std::min<uint64_t>(length, rest + 1), '\0');  // one too many is refused without being read
  take({reinterpret_cast<uint8_t*>(text.data()), text.size()});
  const Header header = HeaderParser(text, name).parse();

  const std::optional<uint64_t> total = bytes_of(header);
  if (total != rest) {
    damaged(name, std::to_string(rest) + " bytes of elements",
            (total ? std::to_string(*total) : "more than memory holds") + " for " + std::string(name_of(header.dtype)) +
                header.shape.str());
  }
  const Tensor tensor = Tensor::empty(header.shape, header.dtype);
  const std::span<uint8_t> bytes(static_cast<uint8_t*>(tensor.data()), static_cast<size_t>(rest));
  take(bytes);
  if (header.is_big_endian) swap_bytes(bytes, size_of(header.dtype));
  if (header.dtype == DType::boolean && std::ranges::any_of(bytes, [](uint8_t b) { return b > 1; })) {
    damaged(name, "a truth value that is neither 0 nor 1", "bytes of 0 or 1");
  }
  return header.is_fortran && header.shape.rank() > 1 ? rows_of(bytes, header) : tensor;
}

std::string npy_header_of(const Tensor& tensor) {
  const auto* found = std::ranges::find(kElementTypes, tensor.dtype(), &ElementType::dtype);
  if (found == std::end(kElementTypes)) {
    throw DTypeError(kWrite, tensor.str(), "a dtype that NumPy has", "Convert the tensor with to(DType::f32)");
  }
  std::string text = "{'descr': '";
  text += size_of(tensor.dtype()) == 1 ? '|' : '<';
  text += found->code;
  text += "', 'fortran_order': False, 'shape': (";
  for (const int64_t size : tensor.shape()) text += std::to_string(size) + (tensor.rank() == 1 ? "," : ", ");
  if (tensor.rank() > 1) text.erase(text.size() - 2);
  text += "), }";
  constexpr size_t kBefore = 10;
  text.append(kAlignment - 1 - (kBefore + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return header + text;
}

Tensor parse_npy(std::span<const uint8_t> bytes, const std::string& name) {
  return with_host_memory(kRead, name, [&] {
    size_t offset = 0;
    return read_npy_stream(name, bytes.size(), [&](std::span<uint8_t> to) {
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
      offset += to.size();
    });
  });
}

Tensor read_npy(const std::filesystem::path& file) {
  return with_host_memory(kRead, file.string(), [&] {
    return read_source(kRead, file, [](const ByteSource& source) {
      uint64_t offset = 0;
      return read_npy_stream(source.name, source.size, [&](std::span<uint8_t> to) {
        source.read_at(offset, to);
        offset += to.size();
      });
    });
  });
}

void write_npy(const std::filesystem::path& file, const Tensor& tensor) {
  with_host_memory(kWrite, file.string(), [&] {
    const std::string header = npy_header_of(tensor);
    const Tensor dense = tensor.to(Device::cpu()).contiguous();
    write_file_atomically(kWrite, file,
                          {{reinterpret_cast<const uint8_t*>(header.data()), header.size()},
                           {static_cast<const uint8_t*>(dense.data()), static_cast<size_t>(dense.bytes())}});
  });
}

}  // namespace ashlar::nn

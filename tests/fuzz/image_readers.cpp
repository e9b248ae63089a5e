// Readers of images.
#include <zlib.h>

#include <vector>

#include "nn/data/cifar.h"
#include "nn/data/jpeg.h"
#include "nn/data/png.h"
#include "runtime/support/error.h"
#include "tests/fuzz/targets.h"

namespace ashlar::fuzz {
namespace {

uint32_t big_endian(Bytes bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/// The same with the checksums that its chunks should have, which libFuzzer doesn't find.
std::vector<uint8_t> with_checksums(Bytes bytes) {
  constexpr size_t kSignature = 8, kAround = 12;  // around a chunk's data: its length, type and checksum
  std::vector<uint8_t> png(bytes.begin(), bytes.end());
  for (size_t at = kSignature; at + kAround <= png.size();) {
    const size_t length = big_endian(Bytes(png).subspan(at));
    if (length > png.size() - at - kAround) break;
    const auto sum = static_cast<uint32_t>(crc32(0, png.data() + at + 4, static_cast<uInt>(length + 4)));
    for (size_t i = 0; i < 4; i++) png[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += length + kAround;
  }
  return png;
}

/// Whether `bytes` are an image, which then is one.
template <class Parse>
bool is_image(Parse parse, Bytes bytes) {
  try {
    const Tensor image = parse(bytes, "input");
    require(image.dtype() == DType::u8 && image.numel() > 0, "pixels");
    require(image.rank() == 2 || (image.rank() == 3 && image.size(2) == 3), "a grey or a coloured image");
    return true;
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace

void read_png(Bytes bytes) {
  if (is_image(nn::parse_png, bytes)) return;
  is_image(nn::parse_png, with_checksums(bytes));
}

void read_jpeg(Bytes bytes) { is_image(nn::parse_jpeg, bytes); }

void read_cifar(Bytes bytes) {
  for (const nn::Cifar kind : {nn::Cifar::ten, nn::Cifar::hundred, nn::Cifar::hundred_in_twenty}) {
    try {
      const nn::LabeledImages data = nn::parse_cifar(bytes, kind, "input");
      require(data.size() == data.labels.size(0), "a label for each image");
    } catch (const DataError&) {
    }
  }
}

}  // namespace ashlar::fuzz

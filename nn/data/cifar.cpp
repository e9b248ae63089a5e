#include "nn/data/cifar.h"

#include <cstring>
#include <vector>

#include "nn/data/byte_source.h"
#include "nn/data/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "read_cifar";
constexpr int64_t kPixels = 3 * 32 * 32;

struct Layout {
  int64_t label_bytes, label_at, classes;
};

Layout layout_of(Cifar kind) {
  switch (kind) {
    case Cifar::ten:
      return {1, 0, 10};
    case Cifar::hundred:
      return {2, 1, 100};
    case Cifar::hundred_in_twenty:
      return {2, 0, 20};
  }
  throw ValueError(kName, "another kind", "Cifar::ten, hundred or hundred_in_twenty", "Pass one of them");
}

[[noreturn]] void damaged(const std::string& name, const std::string& came, const std::string& needed) {
  throw DataError(kName, name + ": " + came, needed, "Take the binary version of CIFAR, and its own kind");
}

/// Images and labels into the rows from `first` on of tensors that are large enough.
void read_records(const ByteSource& source, const Layout& layout, const LabeledImages& to, int64_t first) {
  const auto bytes = static_cast<size_t>(layout.label_bytes + kPixels);
  constexpr size_t kRecords = 256;
  std::vector<uint8_t> piece(bytes * kRecords);
  auto* image = static_cast<uint8_t*>(to.images.data()) + first * kPixels;
  auto* label = static_cast<uint8_t*>(to.labels.data()) + first;
  for (uint64_t at = 0; at < source.size;) {
    const size_t count = std::min<uint64_t>(piece.size(), source.size - at);
    source.read_at(at, std::span(piece).first(count));
    for (size_t record = 0; record < count; record += bytes) {
      *label = piece[record + static_cast<size_t>(layout.label_at)];
      if (*label >= layout.classes) {
        damaged(source.name,
                "the label " + std::to_string(*label) + " of image " + std::to_string((at + record) / bytes),
                "labels below " + std::to_string(layout.classes));
      }
      std::memcpy(image, piece.data() + record + layout.label_bytes, kPixels);
      image += kPixels, label++;
    }
    at += count;
  }
}

int64_t records_of(const ByteSource& source, const Layout& layout) {
  const auto bytes = static_cast<uint64_t>(layout.label_bytes + kPixels);
  if (source.size == 0 || source.size % bytes != 0) {
    damaged(source.name, std::to_string(source.size) + " bytes", "a multiple of " + std::to_string(bytes));
  }
  return static_cast<int64_t>(source.size / bytes);
}

LabeledImages room_for(int64_t count) {
  return {Tensor::empty({count, 3, 32, 32}, DType::u8), Tensor::empty({count}, DType::u8)};
}

LabeledImages read_from(const ByteSource& source, Cifar kind) {
  return with_host_memory(kName, source.name, [&] {
    const Layout layout = layout_of(kind);
    const LabeledImages result = room_for(records_of(source, layout));
    read_records(source, layout, result, 0);
    return result;
  });
}

}  // namespace

LabeledImages parse_cifar(std::span<const uint8_t> bytes, Cifar kind, const std::string& name) {
  return read_from(source_of(bytes, name), kind);
}

LabeledImages read_cifar(const std::filesystem::path& file, Cifar kind) {
  return read_source(kName, file, [&](const ByteSource& source) { return read_from(source, kind); });
}

ImageDataset read_cifar_folder(const std::filesystem::path& folder, Cifar kind) {
  const Layout layout = layout_of(kind);
  if (kind != Cifar::ten) {
    return {read_cifar(folder / "train.bin", kind), read_cifar(folder / "test.bin", kind), layout.classes};
  }
  const auto batch = [&](int number) { return folder / ("data_batch_" + std::to_string(number) + ".bin"); };
  const auto each_batch = [&](auto visit) {
    for (int number = 1; number <= 5; number++) read_source(kName, batch(number), visit);
  };
  return with_host_memory(kName, folder.string(), [&] {
    int64_t count = 0;
    each_batch([&](const ByteSource& source) { count += records_of(source, layout); });
    const LabeledImages train = room_for(count);
    int64_t first = 0;
    each_batch([&](const ByteSource& source) {
      const int64_t records = records_of(source, layout);
      if (records > count - first) damaged(source.name, "more images than a moment ago", "files that stay as they are");
      read_records(source, layout, train, first);
      first += records;
    });
    if (first != count) damaged(folder.string(), "fewer images than a moment ago", "files that stay as they are");
    return ImageDataset{train, read_cifar(folder / "test_batch.bin", kind), layout.classes};
  });
}

}  // namespace ashlar::nn

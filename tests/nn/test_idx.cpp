// The IDX reader and the MNIST folder reader: what they read, and that nothing damaged gets through or crashes.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "nn/data/idx.h"
#include "nn/data/mnist.h"
#include "runtime/support/error.h"
#include "tests/nn/idx_files.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

using testing::gzip;
using testing::idx_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

std::vector<uint8_t> counting(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; i++) bytes[i] = static_cast<uint8_t>(i * 37);
  return bytes;
}

Tensor parse(const std::vector<uint8_t>& bytes) { return parse_idx(bytes, "test"); }

TEST(Idx, ReadsBytes) {
  const std::vector<uint8_t> data = counting(2 * 3 * 4);
  for (const auto& file : {idx_bytes(8, {2, 3, 4}, data), gzip(idx_bytes(8, {2, 3, 4}, data))}) {
    const Tensor tensor = parse(file);
    EXPECT_EQ(tensor.str(), "u8[2, 3, 4] on cpu");
    EXPECT_EQ(tensor.to_vector<uint8_t>(), data);
  }
}

TEST(Idx, ReadsBigEndianNumbers) {
  EXPECT_EQ(parse(idx_bytes(0x0C, {2}, std::vector<uint8_t>{0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfe})).to_vector<int32_t>(),
            (std::vector<int32_t>{258, -2}));
  EXPECT_EQ(parse(idx_bytes(0x0D, {1}, std::vector<uint8_t>{0x3f, 0xc0, 0, 0})).to_vector<float>(),
            std::vector<float>{1.5F});
  EXPECT_EQ(parse(idx_bytes(0x0E, {1}, std::vector<uint8_t>{0xc0, 0, 0, 0, 0, 0, 0, 0})).to_vector<double>(),
            std::vector<double>{-2});
}

TEST(Idx, ReadsEmptyArraysAndSeveralGzipMembers) {
  EXPECT_EQ(parse(idx_bytes(8, {0, 3}, {})).shape(), (Shape{0, 3}));
  const std::vector<uint8_t> file = idx_bytes(8, {6}, counting(6));
  std::vector<uint8_t> members = gzip(std::span(file).first(5));
  const std::vector<uint8_t> second = gzip(std::span(file).subspan(5));
  members.insert(members.end(), second.begin(), second.end());
  EXPECT_EQ(parse(members).to_vector<uint8_t>(), counting(6));
}

TEST(Idx, EveryTruncationIsAnError) {
  const std::vector<uint8_t> plain = idx_bytes(8, {2, 3, 4}, counting(24)), packed = gzip(plain);
  for (const auto& file : {plain, packed}) {
    for (size_t length = 0; length < file.size(); length++) {
      EXPECT_THROW(parse_idx(std::span(file).first(length), "test"), DataError) << "first " << length << " bytes";
    }
  }
}

TEST(Idx, TrailingBytesAreAnError) {
  std::vector<uint8_t> plain = idx_bytes(8, {4}, counting(4)), packed = gzip(plain);
  plain.push_back(0);
  EXPECT_THROW(parse(plain), DataError);
  EXPECT_THROW(parse(gzip(plain)), DataError) << "inside of the compressed data";
  packed.push_back(0);
  EXPECT_THROW(parse(packed), DataError) << "after the compressed data";
}

// Headers that claim far more than there is must fail without first taking the memory they claim.
TEST(Idx, LyingHeadersAreErrors) {
  constexpr uint32_t kHuge = 0xffffffff;
  for (const auto& sizes : std::vector<std::vector<uint32_t>>{{kHuge},
                                                              {kHuge, 2},
                                                              {kHuge, kHuge},
                                                              {kHuge, kHuge, kHuge},
                                                              {kHuge, kHuge, 0},
                                                              {1u << 31, 1u << 31, 4},
                                                              {5}}) {
    EXPECT_THROW(parse(idx_bytes(8, sizes, counting(4))), DataError);
    EXPECT_THROW(parse(gzip(idx_bytes(8, sizes, counting(4)))), DataError);
    EXPECT_THROW(parse(idx_bytes(0x0E, sizes, counting(8))), DataError);
  }
  EXPECT_THROW(parse(idx_bytes(8, {3}, counting(4))), DataError) << "fewer than there are";
  EXPECT_THROW(parse(idx_bytes(8, {}, {})), DataError) << "rank 0";
  EXPECT_THROW(parse(idx_bytes(8, std::vector<uint32_t>(9, 1), counting(1))), DataError) << "rank 9";
  EXPECT_EQ(parse(idx_bytes(0x0B, {1}, counting(2))).dtype(), DType::i16);
  EXPECT_THROW(parse({1, 0, 8, 1, 0, 0, 0, 0}), DataError) << "wrong magic";
}

// Random damage, the same on every machine: a typed error or a tensor, never anything else.
TEST(Idx, DamagedFilesNeverCrash) {
  std::mt19937 engine(11);
  const std::vector<uint8_t> plain = idx_bytes(8, {3, 5}, counting(15)), packed = gzip(plain);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20'000; round++) {
    std::vector<uint8_t> file = round % 2 == 0 ? plain : packed;
    const auto changes = 1 + engine() % 3;
    for (size_t i = 0; i < changes; i++) {
      switch (engine() % 4) {
        case 0:
          file[engine() % file.size()] = static_cast<uint8_t>(engine());
          break;
        case 1:
          file[engine() % file.size()] ^= static_cast<uint8_t>(1u << engine() % 8);
          break;
        case 2:
          file.resize(1 + engine() % file.size());
          break;
        default:
          file.insert(file.begin() + static_cast<std::ptrdiff_t>(engine() % file.size()), 0xff);
          break;
      }
    }
    try {
      const Tensor tensor = parse(file);
      EXPECT_LE(tensor.bytes(), 1 << 16);
      accepted++;
    } catch (const DataError&) {
      refused++;
    }
  }
  EXPECT_GT(accepted, 100) << "changed pixels are still a file";
  EXPECT_GT(refused, 10'000);
}

TEST(Idx, UnreadableFilesAreErrors) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_idx(folder / "missing"), DataError);
  EXPECT_THROW(read_idx(folder.path()), DataError) << "a folder";
  write_bytes(folder / "empty", {});
  EXPECT_THROW(read_idx(folder / "empty"), DataError);
}

struct MnistParts {
  std::vector<uint8_t> train_images = idx_bytes(8, {3, 2, 2}, counting(12));
  std::vector<uint8_t> train_labels = idx_bytes(8, {3}, std::vector<uint8_t>{0, 2, 1});
  std::vector<uint8_t> test_images = idx_bytes(8, {1, 2, 2}, counting(4));
  std::vector<uint8_t> test_labels = idx_bytes(8, {1}, std::vector<uint8_t>{2});

  void write(const TemporaryFolder& folder) const {
    write_bytes(folder / "train-images-idx3-ubyte", train_images);
    write_bytes(folder / "train-labels-idx1-ubyte.gz", gzip(train_labels));
    write_bytes(folder / "t10k-images-idx3-ubyte.gz", gzip(test_images));
    write_bytes(folder / "t10k-labels-idx1-ubyte", test_labels);
  }
};

TEST(MnistFolder, ReadsFilesWithAndWithoutGzip) {
  const TemporaryFolder folder;
  MnistParts().write(folder);
  const ImageDataset data = read_mnist_folder(folder.path());
  EXPECT_EQ(data.train.images.shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(data.train.labels.to_vector<uint8_t>(), (std::vector<uint8_t>{0, 2, 1}));
  EXPECT_EQ(data.test.size(), 1);
  EXPECT_EQ(data.train.pixels(), 4);
  EXPECT_EQ(data.classes, 3);
}

TEST(MnistFolder, FilesMustFitEachOther) {
  const auto refused = [](auto change) {
    const TemporaryFolder folder;
    MnistParts parts;
    change(parts);
    parts.write(folder);
    EXPECT_THROW(read_mnist_folder(folder.path()), DataError);
  };
  refused([](MnistParts& p) { p.train_labels = idx_bytes(8, {2}, counting(2)); });
  refused([](MnistParts& p) { p.test_images = idx_bytes(8, {1, 4, 1}, counting(4)); });
  refused([](MnistParts& p) { p.test_labels = idx_bytes(8, {1}, std::vector<uint8_t>{3}); });
  refused([](MnistParts& p) { p.train_images = idx_bytes(8, {3, 4}, counting(12)); });
  refused([](MnistParts& p) { p.train_images = idx_bytes(0x0D, {3, 1, 1}, counting(12)); });
  refused([](MnistParts& p) { p.train_images = idx_bytes(8, {0, 2, 2}, {}); });
  const TemporaryFolder nothing;
  EXPECT_THROW(read_mnist_folder(nothing.path()), DataError);
}

TEST(MnistFolder, PixelStatistics) {
  const LabeledImages data{Tensor::from(std::vector<uint8_t>{0, 255, 0, 255}, {1, 2, 2}),
                           Tensor::from(std::vector<uint8_t>{0}, {1})};
  EXPECT_NEAR(pixel_statistics(data).mean, 0.5, 1e-12);
  EXPECT_NEAR(pixel_statistics(data).deviation, 0.5, 1e-12);
  const LabeledImages flat{Tensor::from(std::vector<uint8_t>{51}, {1, 1, 1}), data.labels};
  EXPECT_NEAR(pixel_statistics(flat).mean, 0.2, 1e-12);
  EXPECT_EQ(pixel_statistics(flat).deviation, 1);
}

}  // namespace
}  // namespace ashlar::nn

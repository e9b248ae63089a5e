// JPEG, folders of images, CIFAR.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/data/cifar.h"
#include "nn/data/data_loader.h"
#include "nn/data/file.h"
#include "nn/data/image_folder.h"
#include "nn/data/jpeg.h"
#include "nn/data/png.h"
#include "runtime/support/error.h"
#include "runtime/tensor/random.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

const std::filesystem::path seeds = ASHLAR_FUZZ_SEEDS;  // the JPEG images made by Pillow

/// Red is (200, 30, 60) in the left half; to the right (20, 40 + 10 y, 250 - x).
std::array<int, 3> colour(int64_t y, int64_t x) {
  if (x < 9) return {200, 30, 60};
  return {20, 40 + 10 * static_cast<int>(y), 250 - static_cast<int>(x)};
}

TEST(Jpeg, ReadsWhatOthersWrote) {
  const Tensor image = read_jpeg(seeds / "jpeg" / "colours.jpg");
  ASSERT_EQ(image.shape(), (Shape{12, 18, 3}));
  const auto values = image.to_vector<uint8_t>();
  for (int64_t y = 0; y < 12; y++) {
    for (int64_t x = 0; x < 18; x++) {
      for (size_t c = 0; c < 3; c++) {
        EXPECT_NEAR(values[static_cast<size_t>(y * 18 + x) * 3 + c], colour(y, x)[c], 12) << y << ", " << x;
      }
    }
  }
  EXPECT_EQ(read_jpeg(seeds / "jpeg" / "progressive.jpg").shape(), (Shape{12, 18, 3}));
  const Tensor grey = read_jpeg(seeds / "jpeg" / "grey.jpg");
  ASSERT_EQ(grey.shape(), (Shape{12, 18}));
  EXPECT_NEAR(grey.to_vector<uint8_t>()[0], 0.299 * 200 + 0.587 * 30 + 0.114 * 60, 8);
}

TEST(Jpeg, NoDamageGetsThrough) {
  const std::vector<uint8_t> whole = read_bytes(seeds / "jpeg" / "colours.jpg");
  for (size_t length = 0; length + 2 < whole.size(); length++) {  // the last two bytes only say that it ends
    EXPECT_THROW(parse_jpeg(std::span(whole).first(length), "test"), DataError) << "first " << length << " bytes";
  }
  for (const char* name : {"four_colours.jpg", "size_lies.jpg", "size_lies_a_little.jpg", "cut.jpg", "none.jpg"}) {
    EXPECT_THROW(read_jpeg(seeds / "jpeg" / name), DataError) << name;
  }
}

/// Two classes: a grey image of 2×3 and two coloured ones of the same size, one of them a JPEG by its name only.
void make_folder(const std::filesystem::path& root) {
  std::filesystem::create_directories(root / "cat" / "deep");
  std::filesystem::create_directories(root / "ant");
  std::filesystem::create_directories(root / ".hidden");
  write_png(root / "cat" / "a.png", Tensor::from<uint8_t>({0, 1, 2, 3, 4, 5}, {2, 3}));
  write_png(root / "cat" / "deep" / "b.PNG", Tensor::full({2, 3, 3}, 9, DType::u8));
  write_png(root / "ant" / "z.jpeg", Tensor::arange(18, DType::u8).reshape({2, 3, 3}));
  write_bytes(root / "ant" / "notes.txt", {});
  write_bytes(root / "cat" / ".a.png", {});
}

TEST(ImageFolder, ReadsClassesInOrder) {
  const TemporaryFolder folder;
  make_folder(folder.path());
  const ImageFolder data(folder.path());
  EXPECT_EQ(data.classes(), (std::vector<std::string>{"ant", "cat"}));
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.file(0).filename(), "z.jpeg");
  EXPECT_EQ(data.file(2).filename(), "b.PNG");

  DataLoader loader(data, {.batch = 3});
  loader.start(0);
  const auto batch = loader.next();
  EXPECT_EQ((*batch)[0].shape(), (Shape{3, 3, 2, 3}));
  EXPECT_EQ((*batch)[1].to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ((*batch)[0][0].to_vector<uint8_t>(),
            (std::vector<uint8_t>{0, 3, 6, 9, 12, 15, 1, 4, 7, 10, 13, 16, 2, 5, 8, 11, 14, 17}));
  EXPECT_EQ((*batch)[0][1].to_vector<uint8_t>(),
            (std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
}

TEST(ImageFolder, MayBeGreyAndCropped) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "only");
  write_png(folder / "only" / "a.png", Tensor::arange(20, DType::u8).reshape({4, 5}));
  write_png(folder / "only" / "b.png", Tensor::from<uint8_t>({255, 0, 0, 0, 255, 0, 0, 0, 255}, {1, 3, 3}));
  const ImageFolder data(folder.path(), {.channels = 1, .crop = {{1, 3}}});
  const auto batch = data.batch(std::vector<int64_t>{0, 1}, Dataset::Draw(0, 0));
  EXPECT_EQ(batch[0].shape(), (Shape{2, 1, 1, 3}));
  EXPECT_EQ(batch[0].to_vector<uint8_t>(), (std::vector<uint8_t>{6, 7, 8, 76, 150, 29}));
  const auto fails = [&](const ImageFolderOptions& options) {
    const ImageFolder other(folder.path(), options);
    EXPECT_THROW(other.batch(std::vector<int64_t>{0, 1}, Dataset::Draw(0, 0)), DataError);
  };
  fails({});                  // two sizes
  fails({.crop = {{2, 3}}});  // larger than an image
  EXPECT_THROW(data.batch(std::vector<int64_t>{2}, Dataset::Draw(0, 0)), IndexError);
}

TEST(ImageFolder, NonsenseIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(ImageFolder(folder / "none"), DataError);
  EXPECT_THROW(ImageFolder(folder.path()), DataError) << "no classes";
  std::filesystem::create_directories(folder / "empty");
  EXPECT_THROW(ImageFolder(folder.path()), DataError) << "a class without images";
  write_bytes(folder / "empty" / "a.png", std::vector<uint8_t>{'G', 'I', 'F'});
  EXPECT_THROW(ImageFolder(folder.path()), DataError) << "no image";
  EXPECT_THROW(ImageFolder(folder.path(), {.channels = 2}), ValueError);
  EXPECT_THROW(ImageFolder(folder.path(), {.crop = {{0, 1}}}), ValueError);
}

/// Records whose pixels count up from the record's number.
std::vector<uint8_t> cifar_bytes(const std::vector<std::vector<uint8_t>>& labels) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < labels.size(); i++) {
    bytes.insert(bytes.end(), labels[i].begin(), labels[i].end());
    for (size_t pixel = 0; pixel < 3072; pixel++) bytes.push_back(static_cast<uint8_t>(pixel + i));
  }
  return bytes;
}

TEST(Cifar, ReadsRecords) {
  const LabeledImages ten = parse_cifar(cifar_bytes({{9}, {0}}), Cifar::ten, "test");
  EXPECT_EQ(ten.images.shape(), (Shape{2, 3, 32, 32}));
  EXPECT_EQ(ten.pixels(), 3072);
  EXPECT_EQ(ten.labels.to_vector<uint8_t>(), (std::vector<uint8_t>{9, 0}));
  EXPECT_EQ(ten.images[1][2][31].to_vector<uint8_t>()[31], static_cast<uint8_t>(3072));
  const std::vector<uint8_t> two_labels = cifar_bytes({{19, 99}, {0, 1}});
  EXPECT_EQ(parse_cifar(two_labels, Cifar::hundred, "test").labels.to_vector<uint8_t>(), (std::vector<uint8_t>{99, 1}));
  EXPECT_EQ(parse_cifar(two_labels, Cifar::hundred_in_twenty, "test").labels.to_vector<uint8_t>(),
            (std::vector<uint8_t>{19, 0}));
}

TEST(Cifar, ReadsFolders) {
  const TemporaryFolder folder;
  for (uint8_t i = 1; i <= 5; i++) {
    const std::vector<std::vector<uint8_t>> labels(i == 3 ? 300 : 1, {i});
    write_bytes(folder / ("data_batch_" + std::to_string(i) + ".bin"), cifar_bytes(labels));
  }
  write_bytes(folder / "test_batch.bin", cifar_bytes({{7}}));
  const ImageDataset data = read_cifar_folder(folder.path(), Cifar::ten);
  EXPECT_EQ(data.classes, 10);
  EXPECT_EQ(data.train.size(), 304);
  const auto labels = data.train.labels.to_vector<uint8_t>();
  EXPECT_EQ(labels[1], 2);
  EXPECT_EQ(labels[2], 3);
  EXPECT_EQ(labels[301], 3);
  EXPECT_EQ(labels[303], 5);
  EXPECT_EQ(data.train.images[301].to_vector<uint8_t>()[0], static_cast<uint8_t>(299));
  EXPECT_EQ(data.test.size(), 1);
  EXPECT_GT(pixel_statistics(data.train).deviation, 0);
  EXPECT_THROW(read_cifar_folder(folder.path(), Cifar::hundred), DataError) << "other names";
}

TEST(Cifar, NoDamageGetsThrough) {
  std::vector<uint8_t> bytes = cifar_bytes({{1}, {2}});
  EXPECT_THROW(parse_cifar(bytes, Cifar::hundred, "test"), DataError) << "half a record";
  EXPECT_THROW(parse_cifar(std::span(bytes).first(3072), Cifar::ten, "test"), DataError);
  EXPECT_THROW(parse_cifar({}, Cifar::ten, "test"), DataError);
  bytes[3073] = 10;
  EXPECT_THROW(parse_cifar(bytes, Cifar::ten, "test"), DataError) << "a label too large";
  EXPECT_THROW(read_cifar("/nowhere/test_batch.bin", Cifar::ten), DataError);
}

}  // namespace
}  // namespace ashlar::nn

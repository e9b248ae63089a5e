// PNG in and out, and sheets of images.
#include <gtest/gtest.h>

#include <limits>

#include "nn/data/file.h"
#include "nn/data/image_grid.h"
#include "nn/data/png.h"
#include "runtime/support/error.h"
#include "runtime/tensor/random.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

using testing::read_bytes;
using testing::TemporaryFolder;

// Made with Python's zlib after the standard, not by libpng.
constexpr uint8_t kGrey[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44,
                             0x52, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x02, 0x08, 0x00, 0x00, 0x00, 0x00, 0xb8,
                             0x1f, 0x39, 0xc6, 0x00, 0x00, 0x00, 0x10, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x60,
                             0x60, 0x64, 0x62, 0x68, 0xf8, 0xf7, 0x1f, 0x00, 0x04, 0x93, 0x02, 0x81, 0xa2, 0x85, 0x9a,
                             0x68, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
constexpr uint8_t kPalette[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x01, 0x01, 0x03, 0x00, 0x00, 0x00, 0x21, 0x2e, 0x86, 0xf7, 0x00,
    0x00, 0x00, 0x06, 0x50, 0x4c, 0x54, 0x45, 0x0a, 0x14, 0x1e, 0xc8, 0xd2, 0xdc, 0x82, 0x8d, 0x75, 0xdd,
    0x00, 0x00, 0x00, 0x0a, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x70, 0x00, 0x00, 0x00, 0x42, 0x00,
    0x41, 0x84, 0xbf, 0x8e, 0x62, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
constexpr uint8_t kAlpha[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44,
                              0x52, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0xf4,
                              0x22, 0x7f, 0x8a, 0x00, 0x00, 0x00, 0x11, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x60,
                              0x64, 0x62, 0xfe, 0x1f, 0x15, 0x15, 0xc5, 0x00, 0x00, 0x08, 0x56, 0x02, 0x14, 0x82, 0xea,
                              0xf0, 0x2e, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

TEST(Png, ReadsWhatOthersWrote) {
  const Tensor grey = parse_png(kGrey, "grey");
  EXPECT_EQ(grey.shape(), (Shape{2, 3}));
  EXPECT_EQ(grey.to_vector<uint8_t>(), (std::vector<uint8_t>{0, 1, 2, 128, 254, 255}));
  const Tensor palette = parse_png(kPalette, "palette");
  EXPECT_EQ(palette.shape(), (Shape{1, 3, 3}));
  EXPECT_EQ(palette.to_vector<uint8_t>(), (std::vector<uint8_t>{10, 20, 30, 200, 210, 220, 10, 20, 30}));
  const Tensor alpha = parse_png(kAlpha, "alpha");
  EXPECT_EQ(alpha.to_vector<uint8_t>(), (std::vector<uint8_t>{1, 2, 3, 0, 0, 0})) << "black behind the transparent";
}

TEST(Png, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  Random random(1);
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 5}, Shape{1, 1, 3}, Shape{33, 18, 3}}) {
    const Tensor image = Tensor::randint(0, 256, shape, random, DType::u8);
    write_png(folder / "image.png", image);
    const Tensor read = read_png(folder / "image.png");
    EXPECT_EQ(read.shape(), shape);
    EXPECT_EQ(read.to_vector<uint8_t>(), image.to_vector<uint8_t>());
  }
  const Tensor channels_first = Tensor::randint(0, 256, {3, 4, 6}, random, DType::u8);
  write_png(folder / "view.png", channels_first.permute({1, 2, 0}));
  EXPECT_EQ(read_png(folder / "view.png").to_vector<uint8_t>(), channels_first.permute({1, 2, 0}).to_vector<uint8_t>());
}

TEST(Png, FloatsAreFromZeroToOne) {
  const TemporaryFolder folder;
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  const Tensor image = Tensor::from({0.0F, 1.0F, 0.5F, -3.0F, 7.0F, nan, infinite, 1 / 255.0F}, {2, 4});
  const std::vector<uint8_t> expected{0, 255, 128, 0, 255, 0, 255, 1};
  write_png(folder / "image.png", image);
  EXPECT_EQ(read_png(folder / "image.png").to_vector<uint8_t>(), expected);
  write_png(folder / "double.png", image.to(DType::f64));
  EXPECT_EQ(read_png(folder / "double.png").to_vector<uint8_t>(), expected);
}

TEST(Png, NoDamageGetsThrough) {
  const std::span<const uint8_t> whole(kPalette);
  for (size_t length = 0; length + 12 < whole.size(); length++) {  // libpng doesn't need the last, empty chunk
    EXPECT_THROW(parse_png(whole.first(length), "test"), DataError) << "first " << length << " bytes";
  }
  for (size_t i = 0; i + 12 < whole.size(); i++) {
    std::vector<uint8_t> bytes(whole.begin(), whole.end());
    bytes[i] ^= 0x10;
    EXPECT_THROW(parse_png(bytes, "test"), DataError) << "byte " << i;
  }
  EXPECT_THROW(read_png("/nowhere/image.png"), DataError);
}

TEST(Png, NonsenseIsRefused) {
  const TemporaryFolder folder;
  const auto file = folder / "image.png";
  EXPECT_THROW(write_png(file, Tensor::zeros({3})), ShapeError);
  EXPECT_THROW(write_png(file, Tensor::zeros({3, 4, 2})), ShapeError);
  EXPECT_THROW(write_png(file, Tensor::zeros({0, 4})), ShapeError);
  EXPECT_THROW(write_png(file, Tensor::zeros({1, 1'000'001}, DType::u8)), ShapeError);
  EXPECT_THROW(write_png(file, Tensor::zeros({3, 4}, DType::i64)), DTypeError);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_THROW(write_png(folder / "none" / "image.png", Tensor::zeros({3, 4})), WriteError);
}

TEST(ImageGrid, LaysImagesInRows) {
  const Tensor images = Tensor::from({1, 2, 3, 4, 5, 6}, {3, 1, 2});
  EXPECT_EQ(image_grid(images, 2, 0).to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 0, 0}));
  EXPECT_EQ(image_grid(images, 2, 1).shape(), (Shape{5, 7}));
  EXPECT_EQ(image_grid(images, 2, 1).slice(0, 1, 2).to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 2, 0, 3, 4, 0}));
  EXPECT_EQ(image_grid(images, 8, 0).shape(), (Shape{1, 6})) << "no more columns than images";
  EXPECT_EQ(image_grid(images.unsqueeze(1), 1, 0).to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST(ImageGrid, PutsColoursLast) {
  const Tensor images = Tensor::arange(2 * 3 * 1 * 2, DType::u8).reshape({2, 3, 1, 2});
  const Tensor sheet = image_grid(images, 1, 0);
  EXPECT_EQ(sheet.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(sheet.to_vector<uint8_t>(), (std::vector<uint8_t>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
}

TEST(ImageGrid, NonsenseIsRefused) {
  EXPECT_THROW(image_grid(Tensor::zeros({3, 4}), 1), ShapeError);
  EXPECT_THROW(image_grid(Tensor::zeros({1, 2, 3, 4}), 1), ShapeError);
  EXPECT_THROW(image_grid(Tensor::zeros({0, 3, 4}), 1), ShapeError);
  EXPECT_THROW(image_grid(Tensor::zeros({1, 3, 4}), 0), ValueError);
  EXPECT_THROW(image_grid(Tensor::zeros({1, 3, 4}), 1, -1), ValueError);
}

}  // namespace
}  // namespace ashlar::nn

// Transforms of samples, their randomness, and parts of data sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "nn/data/data_loader.h"
#include "nn/data/subset.h"
#include "nn/data/transforms.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

std::vector<Random> randoms(int64_t count, uint64_t seed = 1) {
  std::vector<Random> result;
  for (int64_t i = 0; i < count; i++) result.push_back(Dataset::Draw(seed, 0).of(i));
  return result;
}

Tensor apply(const Transform& transform, const Tensor& samples, uint64_t seed = 1) {
  std::vector<Random> chance = randoms(samples.size(0), seed);
  return transform(samples, chance);
}

TEST(Transforms, ToDtypeScales) {
  const Tensor bytes = Tensor::from<uint8_t>({0, 51, 255}, {3, 1});
  EXPECT_EQ(apply(ToDtype{.scale = true}, bytes).to_vector<float>(), (std::vector<float>{0, 0.2F, 1}));
  EXPECT_EQ(apply(ToDtype{}, bytes).to_vector<float>(), (std::vector<float>{0, 51, 255}));
  EXPECT_THROW(apply(ToDtype{.scale = true}, bytes.to(DType::i32)), DTypeError);
  EXPECT_THROW(apply(ToDtype{.dtype = DType::f16, .scale = true}, bytes), DTypeError);
}

TEST(Transforms, NormalizeTakesChannels) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F, 8.0F}, {2, 2, 1, 2});
  EXPECT_EQ(apply(Normalize({1, 3}, {0.5, 2}), x).to_vector<float>(),
            (std::vector<float>{0, 2, 0, 0.5F, 8, 10, 2, 2.5F}));
  EXPECT_EQ(apply(Normalize({1}, {1}), x).to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_THROW(apply(Normalize({1, 1, 1}, {1, 1, 1}), x), ShapeError);
  EXPECT_THROW(apply(Normalize({1}, {1}), x.to(DType::u8)), DTypeError);
  EXPECT_THROW(Normalize({}, {}), ValueError);
  EXPECT_THROW(Normalize({1, 2}, {1}), ValueError);
  EXPECT_THROW(Normalize({1}, {0}), ValueError);
}

TEST(Transforms, RandomCropIsAWindowOfThePaddedImage) {
  constexpr int64_t kCount = 400, kPadding = 1;
  // Two planes of 2×3; the pixels are 1 to 12, so that 0 is padding.
  const Tensor image = Tensor::arange(1, 13, 1, DType::i32).reshape({1, 2, 2, 3});
  const Tensor samples = image.broadcast_to({kCount, 2, 2, 3});
  const Tensor crops = apply(RandomCrop(2, 3, kPadding), samples);
  ASSERT_EQ(crops.shape(), (Shape{kCount, 2, 2, 3}));
  const Tensor padded = Tensor::zeros({2, 4, 5}, DType::i32);
  padded.slice(1, 1, 3).slice(2, 1, 4).copy_(image[0]);
  std::set<std::vector<int32_t>> possible, seen;
  for (int64_t top = 0; top < 3; top++) {
    for (int64_t left = 0; left < 3; left++) {
      possible.insert(padded.slice(1, top, top + 2).slice(2, left, left + 3).to_vector<int32_t>());
    }
  }
  for (int64_t i = 0; i < kCount; i++) seen.insert(crops[i].to_vector<int32_t>());
  EXPECT_EQ(seen, possible) << "all nine places and nothing else";

  EXPECT_EQ(apply(RandomCrop(2, 3), image).to_vector<int32_t>(), image.to_vector<int32_t>());
  EXPECT_EQ(apply(RandomCrop(1, 1, 5), Tensor::ones({3, 2, 2}, DType::u8)).shape(), (Shape{3, 1, 1}));
  EXPECT_EQ(apply(RandomCrop(1, 1), Tensor::ones({0, 2, 2})).shape(), (Shape{0, 1, 1}));
  EXPECT_THROW(apply(RandomCrop(3, 3), image), ShapeError);
  EXPECT_THROW(apply(RandomCrop(1, 1), Tensor::ones({4, 4})), ShapeError);
  EXPECT_THROW(RandomCrop(0, 1), ValueError);
  EXPECT_THROW(RandomCrop(1, 1, -1), ValueError);
}

TEST(Transforms, RandomHorizontalFlipTurnsRows) {
  constexpr int64_t kCount = 300;
  for (const DType dtype : {DType::u8, DType::f16, DType::f32, DType::f64}) {
    const Tensor image = Tensor::arange(12).reshape({1, 2, 2, 3}).to(dtype);
    const Tensor flips = apply(RandomHorizontalFlip(0.25), image.broadcast_to({kCount, 2, 2, 3}));
    int64_t turned = 0;
    for (int64_t i = 0; i < kCount; i++) {
      const auto values = flips[i].to_doubles();
      const bool is_turned = values == image[0].flip(2).to_doubles();
      EXPECT_TRUE(is_turned || values == image[0].to_doubles());
      turned += is_turned;
    }
    EXPECT_NEAR(static_cast<double>(turned) / kCount, 0.25, 0.08);
  }
  const Tensor image = Tensor::arange(6).reshape({1, 2, 3});
  EXPECT_EQ(apply(RandomHorizontalFlip(1), image).to_doubles(), image.flip(2).to_doubles());
  EXPECT_EQ(apply(RandomHorizontalFlip(0), image).to_doubles(), image.to_doubles());
  EXPECT_THROW(RandomHorizontalFlip(1.1), ValueError);
}

TEST(Transforms, OneHotMarksClasses) {
  for (const DType dtype : {DType::u8, DType::i32, DType::i64}) {
    const Tensor hot = apply(OneHot(3), Tensor::from({2, 0}).to(dtype));
    EXPECT_EQ(hot.shape(), (Shape{2, 3}));
    EXPECT_EQ(hot.to_vector<float>(), (std::vector<float>{0, 0, 1, 1, 0, 0}));
  }
  EXPECT_EQ(apply(OneHot(2), Tensor::zeros({4, 5}, DType::i64)).shape(), (Shape{4, 5, 2}));
  EXPECT_THROW(apply(OneHot(2), Tensor::from({2})), IndexError);
  EXPECT_THROW(apply(OneHot(2), Tensor::from({-1})), IndexError);
  EXPECT_THROW(apply(OneHot(2), Tensor::ones({1})), DTypeError);
  EXPECT_THROW(OneHot(0), ValueError);
}

/// n samples of random bytes and their labels.
TensorDataset noise(int64_t n) {
  Random random(3);
  return TensorDataset({Tensor::randint(0, 256, {n, 1, 6, 6}, random, DType::u8), Tensor::arange(n)});
}

/// All samples of an epoch in the order of their labels.
std::vector<float> epoch_of(const Dataset& data, const DataLoaderOptions& options, uint64_t epoch) {
  DataLoader loader(data, options);
  loader.start(epoch);
  std::vector<std::vector<float>> samples(static_cast<size_t>(data.size()));
  while (const auto batch = loader.next()) {
    for (int64_t i = 0; i < (*batch)[0].size(0); i++) {
      samples[static_cast<size_t>((*batch)[1][i].item())] = (*batch)[0][i].to_vector<float>();
    }
  }
  std::vector<float> all;
  for (const auto& sample : samples) all.insert(all.end(), sample.begin(), sample.end());
  return all;
}

TEST(TransformedDataset, ASampleDependsOnSeedEpochAndIndexOnly) {
  const TensorDataset plain = noise(30);
  const TransformedDataset data(plain, {{RandomCrop(6, 6, 2), RandomHorizontalFlip(), ToDtype{.scale = true}}});
  const auto first = epoch_of(data, {.batch = 7, .shuffle = true, .seed = 1}, 2);
  EXPECT_EQ(epoch_of(data, {.batch = 30, .seed = 1, .workers = 3}, 2), first) << "in another order";
  EXPECT_NE(epoch_of(data, {.batch = 7, .shuffle = true, .seed = 1}, 3), first);
  EXPECT_NE(epoch_of(data, {.batch = 7, .shuffle = true, .seed = 2}, 2), first);
  EXPECT_EQ(data.size(), 30);
}

TEST(TransformedDataset, TransformsDrawOneAfterTheOther) {
  // Were both flips to draw the same, the second would undo the first.
  const TensorDataset plain({Tensor::arange(2).broadcast_to({64, 2}).contiguous()});
  const TransformedDataset once(plain, {{RandomHorizontalFlip()}});
  const TransformedDataset twice(plain, {{RandomHorizontalFlip(), RandomHorizontalFlip()}});
  const TransformedDataset nested(once, {{RandomHorizontalFlip()}});
  std::vector<int64_t> indices(64);
  std::iota(indices.begin(), indices.end(), 0);
  for (const TransformedDataset* data : {&once, &twice, &nested}) {
    const Tensor batch = data->batch(indices, Dataset::Draw(1, 0))[0];
    const auto turned = batch.select(1, 0).sum().item();
    EXPECT_GT(turned, 16);
    EXPECT_LT(turned, 48);
  }
  const TransformedDataset too_many(plain, {{}, {OneHot(2)}});
  EXPECT_THROW(too_many.batch(indices, Dataset::Draw(1, 0)), ShapeError);
}

TEST(Subset, IsAViewOfSomeSamples) {
  const TensorDataset whole({Tensor::from({10, 11, 12, 13, 14})});
  const Subset some(whole, {4, 0, 4});
  EXPECT_EQ(some.size(), 3);
  EXPECT_EQ(some.batch(std::vector<int64_t>{1, 2}, Dataset::Draw(0, 0))[0].to_vector<int32_t>(),
            (std::vector<int32_t>{10, 14}));
  EXPECT_THROW(some.batch(std::vector<int64_t>{3}, Dataset::Draw(0, 0)), IndexError);
  EXPECT_THROW(Subset(whole, {5}), IndexError);

  const TensorDataset plain = noise(8);
  const TransformedDataset data(plain, {{RandomCrop(6, 6, 2)}});
  const Subset last(data, {7});
  EXPECT_EQ(last.batch(std::vector<int64_t>{0}, Dataset::Draw(0, 0))[0].to_vector<uint8_t>(),
            data.batch(std::vector<int64_t>{7}, Dataset::Draw(0, 0))[0].to_vector<uint8_t>());
}

TEST(RandomSplit, PutsEverySampleIntoOnePart) {
  const TensorDataset data({Tensor::arange(101)});
  const auto check = [&](const std::vector<double>& lengths, const std::vector<int64_t>& sizes) {
    const auto parts = random_split(data, lengths, 7);
    std::vector<int64_t> all;
    ASSERT_EQ(parts.size(), sizes.size());
    for (size_t i = 0; i < parts.size(); i++) {
      EXPECT_EQ(parts[i].size(), sizes[i]);
      all.insert(all.end(), parts[i].indices().begin(), parts[i].indices().end());
    }
    EXPECT_FALSE(std::ranges::is_sorted(all));
    std::ranges::sort(all);
    std::vector<int64_t> expected(101);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  };
  check({100, 0, 1}, {100, 0, 1});
  check({0.5, 0.25, 0.25}, {51, 25, 25});
  check({0.7, 0.2, 0.1}, {71, 20, 10});
  EXPECT_EQ(random_split(data, {1, 100}, 7)[0].indices(), random_split(data, {1, 100}, 7)[0].indices());
  EXPECT_NE(random_split(data, {50, 51}, 7)[0].indices(), random_split(data, {50, 51}, 8)[0].indices());
  EXPECT_THROW(random_split(data, {100, 2}), ValueError);
  EXPECT_THROW(random_split(data, {0.5, 0.4}), ValueError);
  EXPECT_THROW(random_split(data, {1.5, -0.5}), ValueError);
  EXPECT_THROW(random_split(data, {}), ValueError);
}

}  // namespace
}  // namespace ashlar::nn

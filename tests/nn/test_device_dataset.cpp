// Data that lie on a device: what is drawn there, alone and in replays of a captured step.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ashlar/ashlar.h"
#include "nn/data/device_dataset.h"
#include "runtime/graph/graph.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class DeviceData : public testing::OnDevice {
 protected:
  /// n samples {i, 10 i} and the labels i.
  DeviceDataset numbered(int64_t n, DeviceDatasetOptions options) const {
    const Tensor labels = Tensor::arange(n);
    const Tensor x = Tensor::arange(n, DType::f32);
    options.device = device();
    return DeviceDataset({stack({x, x * 10}, 1), labels}, options);
  }
};

/// The labels of so many batches, whose samples must be theirs.
std::vector<int64_t> labels_of(DeviceDataset& data, int64_t batches) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < batches; i++) {
    const std::vector<Tensor> batch = data.next();
    const auto x = batch[0].to_vector<float>();
    const auto labels = batch[1].to_vector<int64_t>();
    for (size_t k = 0; k < labels.size(); k++) {
      EXPECT_EQ(x[2 * k], static_cast<float>(labels[k]));
      EXPECT_EQ(x[2 * k + 1], 10 * static_cast<float>(labels[k]));
    }
    all.insert(all.end(), labels.begin(), labels.end());
  }
  return all;
}

TEST_P(DeviceData, AnEpochHasEverySampleOnce) {
  DeviceDataset data = numbered(103, {.batch = 10, .seed = 4});
  EXPECT_EQ(data.batches(), 10);
  std::map<uint64_t, std::vector<int64_t>> epochs;
  for (const uint64_t epoch : {0, 1}) {
    data.start(epoch);
    epochs[epoch] = labels_of(data, 10);
    EXPECT_EQ(std::set<int64_t>(epochs[epoch].begin(), epochs[epoch].end()).size(), 100U);
    EXPECT_FALSE(std::ranges::is_sorted(epochs[epoch]));
    EXPECT_EQ(labels_of(data, 1)[3], epochs[epoch][0]) << "after the last three the order begins again";
  }
  EXPECT_NE(epochs[0], epochs[1]);
  data.start(0, 7);
  EXPECT_EQ(labels_of(data, 3), std::vector<int64_t>(epochs[0].begin() + 70, epochs[0].end()));
  DeviceDataset other = numbered(103, {.batch = 10, .seed = 5});
  EXPECT_NE(labels_of(other, 10), epochs[0]);
  DeviceDataset plain = numbered(103, {.batch = 10, .shuffle = false});
  EXPECT_TRUE(std::ranges::is_sorted(labels_of(plain, 10)));
}

TEST_P(DeviceData, OrderIsTheSameOnEveryDevice) {
  DeviceDataset here = numbered(64, {.batch = 32, .seed = 9});
  DeviceDataset host({Tensor::arange(64)}, {.batch = 32, .seed = 9});
  for (int i = 0; i < 2; i++) EXPECT_EQ(here.next()[1].to_vector<int64_t>(), host.next()[0].to_vector<int64_t>());
}

TEST_P(DeviceData, ReplaysGoOn) {
  DeviceDataset data = numbered(24, {.batch = 6, .seed = 1});
  DeviceDataset expected = numbered(24, {.batch = 6, .seed = 1});
  std::vector<Tensor> batch;
  Tensor chance;
  const Graph graph = capture(device(), [&] {
    batch = data.next();
    chance = philox_uniform(data.random(), {5});
  });
  std::vector<std::vector<float>> chances;
  for (const uint64_t epoch : {0, 1}) {
    data.start(epoch);
    expected.start(epoch);
    for (int64_t i = 0; i < data.batches(); i++) {
      graph.replay();
      EXPECT_EQ(batch[1].to_vector<int64_t>(), expected.next()[1].to_vector<int64_t>());
      chances.push_back(chance.to_vector<float>());
      EXPECT_EQ(chances.back(), philox_uniform(expected.random(), {5}).to_vector<float>());
    }
  }
  EXPECT_EQ(std::set(chances.begin(), chances.end()).size(), 8U) << "other numbers for every batch";
  data.start(1, 2);
  graph.replay();
  EXPECT_EQ(chance.to_vector<float>(), chances[6]) << "a batch's numbers are its own, whatever came before";
}

TEST_P(DeviceData, CropsAndFlipsAreWindowsOfThePaddedImage) {
  constexpr int64_t kCount = 500;
  // Two planes of 2×3 whose pixels are 1 to 12, so that 0 is padding.
  for (const DType dtype : {DType::u8, DType::f32}) {
    const Tensor image = Tensor::arange(1, 13, 1, DType::i64).to(dtype).reshape({1, 2, 2, 3});
    const Tensor images = image.broadcast_to({kCount, 2, 2, 3}).contiguous().to(device());
    const Tensor padded = Tensor::zeros({2, 4, 5}, dtype);
    padded.slice(1, 1, 3).slice(2, 1, 4).copy_(image[0]);
    std::set<std::vector<double>> possible, seen;
    for (int64_t top = 0; top < 3; top++) {
      for (int64_t left = 0; left < 4; left++) {
        const Tensor window = padded.slice(1, top, top + 2).slice(2, left, left + 2);
        possible.insert(window.to_doubles());
        possible.insert(window.flip(2).to_doubles());
      }
    }
    const RandomCropFlip augment({.height = 2, .width = 2, .padding = 1, .flip = 0.5}, device());
    const Tensor random = philox_state(3, device());
    const Tensor crops = augment(images, random);
    ASSERT_EQ(crops.shape(), (Shape{kCount, 2, 2, 2}));
    ASSERT_EQ(crops.dtype(), dtype);
    const Tensor on_host = crops.to(Device::cpu());
    for (int64_t i = 0; i < kCount; i++) seen.insert(on_host[i].to_doubles());
    EXPECT_EQ(seen, possible);
    EXPECT_NE(augment(images, random).to_doubles(), crops.to_doubles()) << "the stream of numbers goes on";

    const RandomCropFlip whole({.height = 2, .width = 3}, device());
    EXPECT_EQ(whole(images, random).to_doubles(), images.to_doubles());
    const RandomCropFlip turned({.height = 2, .width = 3, .flip = 1}, device());
    EXPECT_EQ(turned(images, random).to_doubles(), images.flip(3).to_doubles());
  }
}

TEST_P(DeviceData, CapturedStepsCrop) {
  Random random(1);
  const Tensor images = Tensor::randint(0, 256, {12, 3, 5, 5}, random, DType::u8);
  const auto data_of = [&] { return DeviceDataset({images}, {.batch = 4, .seed = 2, .device = device()}); };
  DeviceDataset data = data_of(), expected = data_of();
  const RandomCropFlip augment({.height = 5, .width = 5, .padding = 2, .flip = 0.5}, device());
  Tensor crops;
  const Graph graph = capture(device(), [&] {
    const std::vector<Tensor> batch = data.next();
    crops = augment(batch[0], data.random());
  });
  for (int64_t i = 0; i < 3; i++) {
    graph.replay();
    const Tensor batch = expected.next()[0];
    EXPECT_EQ(crops.to_vector<uint8_t>(), augment(batch, expected.random()).to_vector<uint8_t>());
  }
}

TEST_P(DeviceData, NonsenseIsRefused) {
  const Tensor x = Tensor::ones({4, 2});
  EXPECT_THROW(DeviceDataset({}, {}), ValueError);
  EXPECT_THROW(DeviceDataset({x, Tensor::ones({3})}, {}), ShapeError);
  EXPECT_THROW(DeviceDataset({x}, {.batch = 5}), ValueError);
  EXPECT_THROW(DeviceDataset({x}, {.batch = 0}), ValueError);
  DeviceDataset data({x}, {.batch = 3, .device = device()});
  EXPECT_THROW(data.start(0, 2), ValueError);
  EXPECT_THROW(RandomCropFlip({}, device()), ValueError);
  EXPECT_THROW(RandomCropFlip({.height = 1, .width = 1, .flip = 2}, device()), ValueError);
  const RandomCropFlip augment({.height = 3, .width = 3}, device());
  EXPECT_THROW(augment(Tensor::ones({1, 1, 2, 3}, DType::f32, device()), data.random()), ShapeError);
  EXPECT_THROW(augment(Tensor::ones({1, 3, 3}, DType::f32, device()), data.random()), ShapeError);
  EXPECT_THROW(augment(Tensor::ones({1, 1, 3, 3}, DType::f32, device()), x), DTypeError);
}

INSTANTIATE_TEST_SUITE_P(, DeviceData, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

}  // namespace
}  // namespace ashlar::nn

// The loader of any data set: order, workers, resuming, randomness of samples, what is thrown.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ashlar/ashlar.h"
#include "nn/data/data_loader.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

/// n samples: {i, i + 1} and the label i.
TensorDataset numbered(int64_t n) {
  std::vector<float> x;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < n; i++) {
    x.insert(x.end(), {static_cast<float>(i), static_cast<float>(i + 1)});
    labels.push_back(i);
  }
  return TensorDataset({Tensor::from(x, {n, 2}), Tensor::from(labels, {n})});
}

std::vector<int64_t> rest(DataLoader& loader) {
  std::vector<int64_t> all;
  while (const auto batch = loader.next()) {
    const auto labels = (*batch)[1].to_vector<int64_t>();
    const auto x = (*batch)[0].to_vector<float>();
    for (size_t i = 0; i < labels.size(); i++) {
      EXPECT_EQ(x[2 * i], static_cast<float>(labels[i]));
      EXPECT_EQ(x[2 * i + 1], static_cast<float>(labels[i] + 1));
    }
    all.insert(all.end(), labels.begin(), labels.end());
  }
  return all;
}

std::vector<int64_t> epoch(DataLoader& loader, uint64_t number) {
  loader.start(number);
  return rest(loader);
}

TEST(DataLoader, OrderDependsOnSeedAndEpochOnly) {
  const TensorDataset data = numbered(101);
  DataLoader one(data, {.batch = 7, .shuffle = true, .seed = 5});
  DataLoader many(data, {.batch = 10, .shuffle = true, .seed = 5, .workers = 4, .prefetch = 1});
  DataLoader other(data, {.batch = 7, .shuffle = true, .seed = 6});
  const auto first = epoch(one, 3);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 101U) << "each once";
  EXPECT_FALSE(std::ranges::is_sorted(first));
  EXPECT_EQ(epoch(many, 3), first);
  EXPECT_NE(epoch(one, 4), first);
  EXPECT_NE(epoch(other, 3), first);
  EXPECT_EQ(epoch(one, 3), first);
  DataLoader plain(data, {.batch = 7, .workers = 3});
  EXPECT_TRUE(std::ranges::is_sorted(epoch(plain, 0)));
}

TEST(DataLoader, GoesOnWhereItWas) {
  const TensorDataset data = numbered(50);
  DataLoader loader(data, {.batch = 4, .shuffle = true, .workers = 2});
  const auto whole = epoch(loader, 1);
  for (const int64_t stop : {0, 1, 5, 12, 13}) {
    loader.start(1);
    for (int64_t i = 0; i < stop; i++) EXPECT_TRUE(loader.next().has_value());
    EXPECT_EQ(loader.position(), stop);
    DataLoader resumed(data, {.batch = 4, .shuffle = true});
    resumed.start(1, stop);
    const auto after = rest(resumed);
    EXPECT_EQ(after, std::vector<int64_t>(whole.begin() + std::min<int64_t>(4 * stop, 50), whole.end()));
  }
  EXPECT_THROW(loader.start(1, 14), ValueError);
}

TEST(DataLoader, MayDropTheLast) {
  const TensorDataset data = numbered(10);
  DataLoader all(data, {.batch = 4}), full(data, {.batch = 4, .drop_last = true});
  EXPECT_EQ(all.batches(), 3);
  EXPECT_EQ(full.batches(), 2);
  EXPECT_EQ(epoch(all, 0).size(), 10U);
  EXPECT_EQ(epoch(full, 0).size(), 8U);
  EXPECT_FALSE(full.next().has_value()) << "the end stays the end";
  const TensorDataset none = numbered(0);
  DataLoader empty(none, {.batch = 4});
  EXPECT_EQ(epoch(empty, 0).size(), 0U);
}

/// A sample is a random number; sample 30 can't be read where it says so.
class Noise : public Dataset {
 public:
  explicit Noise(bool breaks) : breaks_(breaks) {}
  int64_t size() const override { return 40; }
  std::vector<Tensor> batch(std::span<const int64_t> indices, const Draw& draw) const override {
    std::vector<float> values;
    for (const int64_t index : indices) {
      if (breaks_ && index == 30) throw DataError("Noise", "sample 30", "a sample", "None");
      values.push_back(draw.of(index).uniform());
    }
    return {Tensor::from(values, {static_cast<int64_t>(values.size())})};
  }

 private:
  bool breaks_;
};

TEST(DataLoader, CopiesToADevice) {
  const TensorDataset data = numbered(53);
  for (const Device device : testing::usable_devices()) {
    DataLoader loader(data, {.batch = 8, .shuffle = true, .seed = 2, .workers = 3, .device = device});
    DataLoader host(data, {.batch = 8, .shuffle = true, .seed = 2});
    loader.start(0);
    EXPECT_EQ(loader.next()->at(0).device(), device);
    // Another stream than the loader's reads them, and they outlive it.
    std::vector<std::vector<Tensor>> batches;
    loader.start(1);
    while (auto batch = loader.next()) batches.push_back(std::move(*batch));
    host.start(1);
    for (const auto& batch : batches) {
      const auto expected = host.next();
      EXPECT_EQ((batch[0] + batch[0]).to_vector<float>(), ((*expected)[0] + (*expected)[0]).to_vector<float>());
      EXPECT_EQ(batch[1].to_vector<int64_t>(), (*expected)[1].to_vector<int64_t>());
    }
    EXPECT_EQ(batches.size(), 7U);
  }
  EXPECT_THROW(DataLoader(data, {.device = Device::opencl(63)}), DeviceError);
}

TEST(DataLoader, RandomnessIsTheSamplesOwn) {
  const auto values = [](const DataLoaderOptions& options, uint64_t number) {
    const Noise data(false);
    DataLoader loader(data, options);
    loader.start(number);
    std::vector<float> all;
    while (const auto batch = loader.next()) {
      for (const float value : (*batch)[0].to_vector<float>()) all.push_back(value);
    }
    return all;
  };
  const auto first = values({.batch = 7, .seed = 1}, 2);
  EXPECT_EQ(std::set<float>(first.begin(), first.end()).size(), 40U);
  EXPECT_EQ(values({.batch = 3, .seed = 1, .workers = 3}, 2), first);
  EXPECT_NE(values({.batch = 7, .seed = 1}, 3), first);
  EXPECT_NE(values({.batch = 7, .seed = 2}, 2), first);
}

TEST(DataLoader, PassesErrorsOn) {
  const Noise data(true);
  for (const int workers : {1, 4}) {
    DataLoader loader(data, {.batch = 10, .workers = workers});
    loader.start(0);
    for (int i = 0; i < 3; i++) {
      try {
        EXPECT_TRUE(loader.next().has_value());
      } catch (const DataError&) {
        break;  // another worker may be ahead
      }
    }
    EXPECT_THROW(loader.next(), DataError);
    loader.start(0);  // and again
  }
}

TEST(DataLoader, NonsenseIsRefused) {
  const TensorDataset data = numbered(3);
  EXPECT_THROW(DataLoader(data, {.batch = 0}), ValueError);
  EXPECT_THROW(DataLoader(data, {.workers = 0}), ValueError);
  EXPECT_THROW(DataLoader(data, {.prefetch = 0}), ValueError);
  EXPECT_THROW(TensorDataset({}), ValueError);
  EXPECT_THROW(TensorDataset({Tensor::ones({3}), Tensor::ones({4})}), ShapeError);
  EXPECT_THROW(TensorDataset({Tensor::ones({})}), ShapeError);
}

}  // namespace
}  // namespace ashlar::nn

// The batch loader: order, completeness, restarts, threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "nn/data/loader.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// n images of 1 × 2 pixels; image i is (i, i + 1) and its label is i.
LabeledImages numbered(int64_t n) {
  std::vector<uint8_t> images, labels;
  for (int64_t i = 0; i < n; i++) {
    images.push_back(static_cast<uint8_t>(i));
    images.push_back(static_cast<uint8_t>(i + 1));
    labels.push_back(static_cast<uint8_t>(i));
  }
  return {Tensor::from(images, {n, 1, 2}), Tensor::from(labels, {n})};
}

std::vector<int64_t> labels_of_epoch(BatchLoader& loader, uint64_t epoch) {
  std::vector<int64_t> all;
  loader.start(epoch);
  while (const auto batch = loader.next()) {
    for (int64_t label : batch->labels.to_vector<int64_t>()) all.push_back(label);
  }
  return all;
}

TEST(BatchLoader, KeepsOrderWithoutShuffling) {
  BatchLoader loader(numbered(10), {.batch = 4, .shuffle = false});
  EXPECT_EQ(loader.batches(), 3);
  loader.start(0);
  std::vector<int64_t> sizes, next;
  while (const auto batch = loader.next()) {
    sizes.push_back(batch->size());
    const auto pixels = batch->images.to_vector<uint8_t>();
    const auto labels = batch->labels.to_vector<int64_t>();
    for (size_t i = 0; i < labels.size(); i++) {
      next.push_back(labels[i]);
      EXPECT_EQ(pixels[2 * i], labels[i]);
      EXPECT_EQ(pixels[2 * i + 1], labels[i] + 1);
    }
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 4, 2}));
  EXPECT_EQ(next, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_FALSE(loader.next().has_value()) << "the end stays the end";
}

TEST(BatchLoader, ShufflesBySeedAndEpochOnly) {
  BatchLoader a(numbered(100), {.batch = 7, .seed = 5, .prefetch = 1});
  BatchLoader b(numbered(100), {.batch = 31, .seed = 5, .prefetch = 8});
  BatchLoader other(numbered(100), {.batch = 7, .seed = 6});
  const std::vector<int64_t> first = labels_of_epoch(a, 1);
  EXPECT_EQ(first.size(), 100U);
  EXPECT_EQ(std::set<int64_t>(first.begin(), first.end()).size(), 100U) << "each image once";
  EXPECT_FALSE(std::ranges::is_sorted(first));
  EXPECT_EQ(labels_of_epoch(b, 1), first) << "whatever the batch size";
  EXPECT_NE(labels_of_epoch(b, 2), first);
  EXPECT_NE(labels_of_epoch(other, 1), first);
  EXPECT_EQ(labels_of_epoch(a, 1), first) << "an epoch can be repeated";
}

// The order is part of a training run's result: it must not change between versions or machines.
TEST(BatchLoader, TheOrderIsFixed) {
  BatchLoader loader(numbered(8), {.batch = 8, .seed = 1});
  EXPECT_EQ(labels_of_epoch(loader, 0), (std::vector<int64_t>{4, 6, 5, 7, 2, 3, 1, 0}));
}

TEST(BatchLoader, CanBeInterrupted) {
  BatchLoader loader(numbered(100), {.batch = 1, .prefetch = 2});
  for (uint64_t epoch = 0; epoch < 50; epoch++) {
    loader.start(epoch);
    for (uint64_t i = 0; i < epoch % 5; i++) EXPECT_TRUE(loader.next().has_value());
  }
  EXPECT_EQ(labels_of_epoch(loader, 0).size(), 100U);
  loader.start(1);  // and destroyed while the thread works
}

TEST(BatchLoader, StartsEmpty) {
  BatchLoader loader(numbered(3), {});
  EXPECT_FALSE(loader.next().has_value());
}

TEST(BatchLoader, ReadsViews) {
  const LabeledImages data = numbered(10);
  BatchLoader loader({data.images.slice(0, 0, 10, 2), data.labels.slice(0, 0, 10, 2)}, {.batch = 5, .shuffle = false});
  EXPECT_EQ(labels_of_epoch(loader, 0), (std::vector<int64_t>{0, 2, 4, 6, 8}));
}

TEST(BatchLoader, RefusesNonsense) {
  EXPECT_THROW(BatchLoader(numbered(3), {.batch = 0}), ValueError);
  EXPECT_THROW(BatchLoader(numbered(3), {.prefetch = 0}), ValueError);
}

TEST(BatchLoader, SeveralLoadersShareOneDataSet) {
  const LabeledImages data = numbered(200);
  BatchLoader single(data, {.batch = 16, .seed = 3});
  const std::vector<int64_t> wanted = labels_of_epoch(single, 9);
  std::vector<std::vector<int64_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&result, &data] {
      BatchLoader loader(data, {.batch = 16, .seed = 3});
      result = labels_of_epoch(loader, 9);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, wanted);
}

}  // namespace
}  // namespace ashlar::nn

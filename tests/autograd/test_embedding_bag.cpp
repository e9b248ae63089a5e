// Bags of rows: what an index outside, wrong offsets and wrong calls do; that the rows aren't gathered; graphs. Their
// numbers and gradients are in tests/conformance/cases/embedding_bag.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/autograd.h"
#include "runtime/device/counters.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Floats = std::vector<float>;
using Mode = EmbeddingBagMode;

class EmbeddingBags : public testing::OnDevice {
 protected:
  Tensor index(std::initializer_list<int64_t> values) const { return Tensor::from<int64_t>(values, device()); }
  Tensor numbers(const Shape& shape) const {
    return Tensor::arange(shape.numel(), DType::f32).reshape(shape).to(device());
  }
  bool checks() const { return device().kind == DeviceKind::cpu; }
  /// What `call` gives where nobody looks at indices: on a GPU, and when a graph is replayed.
  template <class Call>
  Floats unchecked(Call call) const {
    Tensor result;
    const Graph graph = capture(device(), [&] { result = call(); });
    graph.replay();
    return result.to_vector<float>();
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, EmbeddingBags, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(EmbeddingBags, IsOneLaunch) {
  const Tensor weight = numbers({5, 3}), at = index({1, 4, 2, 0}), offsets = index({0, 1});
  const Tensor samples = numbers({4});
  for (const Mode mode : {Mode::sum, Mode::mean, Mode::max}) {
    for (const bool is_weighted : {false, true}) {
      if (is_weighted && mode != Mode::sum) continue;
      const Counters before = counters(device().kind);
      const auto [y, winners] = embedding_bag(at, weight, offsets, is_weighted ? samples : Tensor(), mode, 2);
      const Counters since = counters(device().kind) - before;
      EXPECT_EQ(since.launches, 1);
      EXPECT_EQ(y.shape(), (Shape{2, 3}));
      EXPECT_EQ(winners.shape(), mode == Mode::max ? y.shape() : Shape{0});
    }
  }
}

TEST_P(EmbeddingBags, MaximaAreOfTheFirstRow) {
  const Tensor weight = Tensor::from(Floats{1, 5, 1, 5, -2, 7}, {3, 2}, device());
  const Var table(weight, true);
  const auto [y, winners] = ad::embedding_bag(index({1, 0, 2, 2}), table, index({0, 2, 2, 4}), {}, Mode::max);
  EXPECT_EQ(y.value().to_vector<float>(), (Floats{1, 5, 0, 0, -2, 7, 0, 0}));
  EXPECT_EQ(winners.value().to_vector<int64_t>(), (std::vector<int64_t>{1, 1, -1, -1, 2, 2, -1, -1}));
  EXPECT_FALSE(winners.requires_grad());
  const std::vector<Var> slopes = grad({ad::sum(y)}, {table});
  EXPECT_EQ(slopes[0].value().to_vector<float>(), (Floats{0, 0, 1, 1, 1, 1}));
}

TEST_P(EmbeddingBags, ReadsNothingOutside) {
  const Tensor weight = numbers({3, 2}), offsets = index({0, 1, 2, 3});
  const Tensor at = index({2, -1, 1, std::numeric_limits<int64_t>::max()});
  for (const Mode mode : {Mode::sum, Mode::mean, Mode::max}) {
    const Floats y = unchecked([&] { return embedding_bag(at, weight, offsets, {}, mode).y; });
    for (size_t i = 0; i < y.size(); i++) EXPECT_EQ(std::isnan(y[i]), i / 2 % 2 == 1) << i;
    EXPECT_EQ(y[1], 5);
    EXPECT_EQ(y[4], 2);
  }
  const Tensor dy = numbers({4, 2});
  const Floats dweight = unchecked([&] { return embedding_bag_grad(dy, at, offsets, {}, 3); });
  EXPECT_EQ(dweight, (Floats{0, 0, 4, 5, 0, 1}));
  const Floats samples = unchecked([&] { return embedding_bag_samples_grad(dy, at, weight, offsets); });
  EXPECT_EQ(samples[0], 5);
  EXPECT_EQ(samples[2], 23);
  EXPECT_TRUE(std::isnan(samples[1]) && std::isnan(samples[3]));
  if (!checks()) return;
  expect_error<IndexError>([&] { embedding_bag(at, weight, offsets); }, {"embedding_bag", "index -1", "from 0 to 2"});
  expect_error<IndexError>([&] { embedding_bag_grad(dy, at, offsets, {}, 3); }, {"embedding_bag_grad", "index -1"});
}

TEST_P(EmbeddingBags, WrongOffsetsReadNothingOutside) {
  const Tensor weight = Tensor::ones({3, 1}, DType::f32, device()), at = index({2, 0, 1, 1});
  for (const auto& [offsets, sizes] : std::vector<std::pair<Tensor, Floats>>{
           {index({0, 9, 2}), {4, 0, 2}}, {index({-3, 1, 3}), {1, 2, 1}}, {index({1, 1, 4}), {0, 3, 0}}}) {
    EXPECT_EQ(unchecked([&, of = offsets] { return embedding_bag(at, weight, of, {}, Mode::sum).y; }), sizes);
    const Tensor dy = numbers({3, 1});
    unchecked([&, of = offsets] { return embedding_bag_grad(dy, at, of, {}, 3); });
    unchecked([&, of = offsets] { return embedding_bag_samples_grad(dy, at, weight, of); });
    if (!checks()) continue;
    expect_error<IndexError>([&, of = offsets] { embedding_bag(at, weight, of); }, {"embedding_bag", "offsets["});
  }
}

TEST_P(EmbeddingBags, GoIntoAGraph) {
  const Tensor weight = numbers({4, 2}), at = index({1, 2, 3}), offsets = index({0, 1});
  const Tensor samples = Tensor::from(Floats{1, 2, 3}, {3}, device());
  Tensor y, dweight, dsamples;
  const Graph graph = capture(device(), [&] {
    const Var table(weight, true), weights(samples, true);
    const Var bags = ad::embedding_bag(at, table, offsets, weights, Mode::sum).y;
    const std::vector<Var> slopes = grad({ad::sum(bags)}, {table, weights});
    y = bags.value();
    dweight = slopes[0].value();
    dsamples = slopes[1].value();
  });
  graph.replay();
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 3, 26, 31}));
  EXPECT_EQ(dweight.to_vector<float>(), (Floats{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(dsamples.to_vector<float>(), (Floats{5, 9, 13}));
  at.copy_(index({0, 0, 1}));
  offsets.copy_(index({0, 2}));
  graph.replay();
  EXPECT_EQ(y.to_vector<float>(), (Floats{0, 3, 6, 9}));
  EXPECT_EQ(dweight.to_vector<float>(), (Floats{3, 3, 3, 3, 0, 0, 0, 0}));
  EXPECT_EQ(dsamples.to_vector<float>(), (Floats{1, 1, 5}));
}

TEST_P(EmbeddingBags, WrongCallsSayWhatIsNeeded) {
  const Tensor weight = numbers({3, 2}), at = index({0, 1}), offsets = index({0, 1}), rows = at.reshape({1, 2});
  const Tensor ones = Tensor::ones({2}, DType::f32, device());
  expect_error<ShapeError>([&] { embedding_bag(at, weight); }, {"embedding_bag", "offsets: none", "[bags, n]"});
  expect_error<ShapeError>([&] { embedding_bag(rows, weight, offsets); }, {"embedding_bag", "leave the offsets out"});
  expect_error<ShapeError>([&] { embedding_bag(at, weight.reshape({6}), offsets); }, {"a weight of rank 2"});
  expect_error<ShapeError>([&] { embedding_bag(at, weight, index({}), {}, Mode::sum, -1, true); },
                           {"an offset behind the last bag"});
  expect_error<DTypeError>([&] { embedding_bag(ones, weight, offsets); }, {"embedding_bag", "i64"});
  expect_error<DTypeError>([&] { embedding_bag(at, weight, offsets, ones.to(DType::f64), Mode::sum); },
                           {"per_sample_weights of f32"});
  expect_error<ValueError>([&] { embedding_bag(at, weight, offsets, ones); }, {"weights of sums alone"});
  expect_error<ValueError>([&] { embedding_bag(at, weight, offsets, ones, Mode::max); }, {"mode sum"});
  expect_error<ShapeError>(
      [&] {
        embedding_bag(at, weight, offsets, ones.reshape({2, 1}), Mode::sum);
      },
      {"a weight for each index"});
  expect_error<ValueError>([&] { embedding_bag(at, weight, offsets, {}, Mode::sum, 3); }, {"padding_idx = 3"});
  expect_error<ShapeError>([&] { embedding_bag_grad(ones, at, offsets, {}, 3); }, {"a row for each bag"});
  expect_error<ShapeError>(
      [&] {
        embedding_bag_samples_grad(numbers({2, 3}), at, weight, offsets);
      },
      {"as many columns"});
}

}  // namespace
}  // namespace ashlar

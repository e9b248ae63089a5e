// Random numbers by their place: the stream, graphs, devices, errors. The generator itself:
// tests/dsl/test_integers.cpp.
#include <array>
#include <cmath>
#include <map>

#include "ashlar/ops/attention_dropout.h"
#include "ashlar/ops/random.h"
#include "ashlar/ops/sampling.h"
#include "runtime/graph/graph.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/model.h"

namespace ashlar {
namespace {

using testing::OnDevice;

class PhiloxUniform : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, PhiloxUniform, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(PhiloxUniform, BeginsWithThePublishedVectorOfZeros) {
  const Tensor state = philox_state(0, device());
  const std::vector<float> x = philox_uniform(state, {4}).to_vector<float>();
  const uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};  // Random123's kat_vectors
  for (size_t i = 0; i < 4; i++) EXPECT_EQ(x[i], static_cast<float>(words[i] >> 8) * 0x1p-24f);
  EXPECT_EQ(state.to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
}

TEST_P(PhiloxUniform, IsOneStreamHoweverItIsCutAndTheSameOnEveryDevice) {
  const int64_t seed = -0x123456789abcdef;
  const std::vector<float> whole = philox_uniform(philox_state(seed), {7, 1000}).to_vector<float>();
  const Tensor state = philox_state(seed, device());
  std::vector<float> parts;
  for (const int64_t count : {4, 0, 256, 1500, 5240}) {
    const std::vector<float> part = philox_uniform(state, {count}).to_vector<float>();
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, whole);
  // What a number of elements leaves of its last block is passed over.
  philox_uniform(state, {1});
  EXPECT_EQ(state.to_vector<int64_t>()[1], 7000 / 4 + 1);
  // Counters beyond 32 bits
  const Tensor far = Tensor::from(std::vector<int64_t>{seed, (int64_t{1} << 32) - 1}, {2}, device());
  const std::vector<float> across = philox_uniform(far, {8}).to_vector<float>();
  const Tensor next = Tensor::from(std::vector<int64_t>{seed, int64_t{1} << 32}, {2});
  EXPECT_EQ(std::vector<float>(across.begin() + 4, across.end()), philox_uniform(next, {4}).to_vector<float>());
}

TEST_P(PhiloxUniform, IsUniform) {
  const int64_t count = 1 << 18;
  double sum = 0, squares = 0;
  for (const float x : philox_uniform(philox_state(7, device()), {count}).to_vector<float>()) {
    ASSERT_TRUE(x >= 0 && x < 1);
    sum += x;
    squares += double{x} * x;
  }
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / count));
}

TEST_P(PhiloxUniform, OtherDistributionsHaveTheirMoments) {
  const int64_t count = 1 << 17;
  const Tensor state = philox_state(11, device());
  const auto moments = [&](const Tensor& x) {
    double sum = 0, squares = 0, fourth = 0;
    for (const double v : x.to_doubles()) sum += v;
    const double mean = sum / count;
    for (const double v : x.to_doubles()) squares += (v - mean) * (v - mean), fourth += std::pow(v - mean, 4);
    return std::array{mean, squares / count, fourth / count};
  };
  const double root = std::sqrt(static_cast<double>(count));
  const auto [mean, variance, fourth] = moments(normal(state, 3, 2, {count}));
  EXPECT_NEAR(mean, 3, 5 * 2 / root);
  EXPECT_NEAR(variance, 4, 5 * 4 * std::sqrt(2) / root);
  EXPECT_NEAR(fourth, 48, 5 * 16 * std::sqrt(96) / root);
  // Of the standard normal distribution in [-1, 2]: φ(-1) - φ(2) over Φ(2) - Φ(-1), and so on.
  const Tensor cut = trunc_normal(state, 0, 1, -1, 2, {count});
  for (const double v : cut.to_doubles()) ASSERT_TRUE(v >= -1 && v <= 2);
  EXPECT_NEAR(moments(cut)[0], 0.229637, 5 * 0.8 / root);
  const auto ones = moments(bernoulli(state, Tensor::full({count}, 0.3, DType::f32, device())));
  EXPECT_NEAR(ones[0], 0.3, 5 * 0.46 / root);
  std::vector<int> faces(6, 0);
  for (const double v : randint(state, 1, 7, {count}).to_doubles()) faces.at(static_cast<size_t>(v) - 1)++;
  for (const int often : faces) EXPECT_NEAR(often, count / 6.0, 5 * root * 0.38);
}

TEST_P(PhiloxUniform, ClassesAreDrawnByTheirProbabilities) {
  const int64_t rows = 20000;
  const Tensor state = philox_state(3, device());
  const Tensor logits = Tensor::from({0.0F, std::log(4.0F), std::log(2.0F), std::log(3.0F)}, {1, 4}).to(device());
  const auto counts = [&](int64_t k, double temperature, double top_p) {
    std::vector<int> result(4);
    const Tensor drawn = sample_top_k(logits.broadcast_to({rows, 4}), state, k, temperature, top_p);
    for (const int64_t one : drawn.to_vector<int64_t>()) result.at(static_cast<size_t>(one))++;
    return result;
  };
  const auto expect = [&](const std::vector<int>& got, const std::vector<double>& parts) {
    for (size_t i = 0; i < parts.size(); i++) {
      const double p = parts[i];
      EXPECT_NEAR(got[i], rows * p, 5 * std::sqrt(rows * p * (1 - p))) << i;
    }
  };
  expect(counts(4, 1, 1), {0.1, 0.4, 0.2, 0.3});
  expect(counts(2, 1, 1), {0, 4 / 7.0, 0, 3 / 7.0});
  expect(counts(4, 1, 0.6), {0, 4 / 7.0, 0, 3 / 7.0});  // 0.4 isn't enough, 0.7 is
  expect(counts(4, 1, 0.3), {0, 1, 0, 0});
  expect(counts(4, 0.5, 1), {1 / 30.0, 16 / 30.0, 4 / 30.0, 9 / 30.0});
  testing::expect_error<ValueError>([&] { sample_top_k(logits, state, 5); }, {"sample_top_k", "k = 5 of 4"});
  testing::expect_error<ValueError>([&] { sample_top_k(logits, state, 2, 0.0); }, {"sample_top_k", "argmax"});
  testing::expect_error<ValueError>([&] { sample_top_k(logits, state, 2, 1.0, 1.5); }, {"sample_top_k", "top_p"});
}

TEST_P(PhiloxUniform, ShufflesAreOfAllKinds) {
  const Tensor state = philox_state(5, device());
  std::map<std::vector<int64_t>, int> orders;
  for (int i = 0; i < 240; i++) orders[randperm(state, 3).to_vector<int64_t>()]++;
  EXPECT_EQ(orders.size(), 6U);
  for (const auto& [order, often] : orders) EXPECT_NEAR(often, 40, 5 * 5.8);
}

TEST_P(PhiloxUniform, GraphsDrawAnew) {
  const Tensor state = philox_state(3, device());
  Tensor x, order, dice;
  const Graph graph = capture(device(), [&] {
    x = normal(state, 0, 1, {6});
    order = randperm(state, 100);
    dice = randint(state, 0, 1000, {5});
  });
  const Tensor same = philox_state(3, device());
  for (int i = 0; i < 3; i++) {
    graph.replay();
    EXPECT_EQ(x.to_vector<float>(), normal(same, 0, 1, {6}).to_vector<float>());
    EXPECT_EQ(order.to_vector<int64_t>(), randperm(same, 100).to_vector<int64_t>());
    EXPECT_EQ(dice.to_vector<int64_t>(), randint(same, 0, 1000, {5}).to_vector<int64_t>());
  }
}

TEST_P(PhiloxUniform, GraphsGoOnWithNewNumbers) {
  const Tensor state = philox_state(3, device());
  Tensor x;
  const Graph graph = capture(device(), [&] { x = philox_uniform(state, {10}); });
  std::vector<float> replayed, called;
  const Tensor same = philox_state(3, device());
  for (int i = 0; i < 3; i++) {
    graph.replay();
    for (const float value : x.to_vector<float>()) replayed.push_back(value);
    for (const float value : philox_uniform(same, {10}).to_vector<float>()) called.push_back(value);
  }
  EXPECT_EQ(replayed, called);
  EXPECT_NE(std::vector<float>(called.begin(), called.begin() + 10),
            std::vector<float>(called.begin() + 10, called.begin() + 20));
}

TEST_P(PhiloxUniform, Errors) {
  EXPECT_THROW(philox_uniform(Tensor(), {3}), ValueError);
  EXPECT_THROW(philox_uniform(Tensor::zeros({2}, DType::f32, device()), {3}), DTypeError);
  EXPECT_THROW(philox_uniform(Tensor::zeros({3}, DType::i64, device()), {3}), ShapeError);
  const Tensor state = philox_state(3, device()), x = Tensor::ones({4}, DType::f32, device());
  EXPECT_THROW(uniform(state, 1, 1, {3}), ValueError);
  EXPECT_THROW(uniform(state, 0, HUGE_VAL, {3}), ValueError);
  EXPECT_THROW(normal(state, 0, -1, {3}), ValueError);
  EXPECT_THROW(trunc_normal(state, 0, 1, 2, 1, {3}), ValueError);
  EXPECT_THROW(trunc_normal(state, 0, 1, 30, 31, {3}), ValueError);
  EXPECT_THROW(randint(state, 5, 5, {3}), ValueError);
  EXPECT_THROW(randperm(state, -1), ValueError);
  EXPECT_THROW(dropout_at(x, state, 1.5), ValueError);
  EXPECT_THROW(dropout_at(x, x, 0.5), DTypeError);
  const Tensor rows = Tensor::ones({2, 3}, DType::f32, device());
  const auto attended = [&](const Tensor& with, double p) {
    attention_dropout_at(rows, rows, rows, with, {}, false, p);
  };
  EXPECT_NO_THROW(attended(state, 1));
  EXPECT_THROW(attended(state, 1.5), ValueError);
  EXPECT_THROW(attended(x, 0.5), DTypeError);
  EXPECT_THROW(attended(Tensor::zeros({3}, DType::i64, device()), 0.5), ShapeError);
  EXPECT_THROW(attended(Tensor::zeros({1, 2}, DType::i64, device()), 0.5), ShapeError);
  EXPECT_EQ(state.to_vector<int64_t>()[1], 0) << "what is refused draws nothing";
}

}  // namespace
}  // namespace ashlar

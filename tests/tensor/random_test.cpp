// Random numbers by their place: the stream, graphs, devices, errors. The generator itself:
// tests/dsl/test_integers.cpp.
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
}

}  // namespace
}  // namespace ashlar

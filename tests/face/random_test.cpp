// Random numbers: the generator's published vectors, the tensors' distributions, and that devices agree.
#include <cmath>
#include <set>

#include "ashlar/ashlar.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Block = std::array<uint32_t, 4>;

// Random123 (Salmon et al. 2011), examples/kat_vectors: philox4x32 with 10 rounds.
TEST(Random, PublishedVectors) {
  EXPECT_EQ(Random::philox({0, 0, 0, 0}, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Random::philox({~0U, ~0U, ~0U, ~0U}, ~uint64_t{0}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Random::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  Random random(0);
  EXPECT_EQ(random.bits(), 0x6627e8d5U);
  EXPECT_EQ(random.wide_bits(), 0xbc57ac4ce169c58dU);
}

TEST(Random, BelowIsFair) {
  Random random(5);
  int counts[7] = {};
  for (int i = 0; i < 70000; i++) counts[random.below(7)]++;
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);
}

class RandomTensors : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, RandomTensors, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST_P(RandomTensors, AreTheSameOnEveryDevice) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    Random here(7), there(7);
    EXPECT_EQ(Tensor::rand({5, 3}, here, dtype, device()).to_doubles(),
              Tensor::rand({5, 3}, there, dtype).to_doubles());
    EXPECT_EQ(Tensor::randn({5, 3}, here, dtype, device()).to_doubles(),
              Tensor::randn({5, 3}, there, dtype).to_doubles());
    EXPECT_EQ(Tensor::randint(0, 100, 9, here, DType::i64, device()).to_doubles(),
              Tensor::randint(0, 100, 9, there).to_doubles());
  }
  // Pinned: what one seed gave once it gives for good.
  Random random(1);
  const std::vector<float> first = Tensor::rand(2, random, DType::f32, device()).to_vector<float>();
  Random same(1);
  EXPECT_EQ(first[0], static_cast<float>(Random::philox({0, 0, 0, 0}, 1)[0] >> 8) * 0x1p-24F);
  EXPECT_EQ(first[0], same.uniform());
}

TEST_P(RandomTensors, AreDistributedAsTheySay) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    Random random(3);
    const int n = 20000;
    const std::vector<double> uniform = Tensor::rand(n, random, dtype, device()).to_doubles();
    for (const double value : uniform) ASSERT_TRUE(value >= 0 && value < 1) << value;
    EXPECT_NEAR(mean_of(uniform), 0.5, 0.01);
    const std::vector<double> normal = Tensor::randn(n, random, dtype, device()).to_doubles();
    std::vector<double> squares, fourths;
    for (const double value : normal) {
      squares.push_back(value * value);
      fourths.push_back(value * value * value * value);
    }
    EXPECT_NEAR(mean_of(normal), 0, 0.03);
    EXPECT_NEAR(mean_of(squares), 1, 0.04);
    EXPECT_NEAR(mean_of(fourths), 3, 0.3);
  }
  Random random(4);
  const std::vector<int64_t> integers = Tensor::randint(-3, 4, 5000, random, DType::i64, device()).to_vector<int64_t>();
  EXPECT_EQ(std::set<int64_t>(integers.begin(), integers.end()), (std::set<int64_t>{-3, -2, -1, 0, 1, 2, 3}));
  const Tensor widest = Tensor::randint(INT64_MIN, INT64_MAX, 100, random, DType::i64, device());
  EXPECT_GT((widest > 0).to(DType::f32).sum().item(), 20);
}

TEST_P(RandomTensors, FromTheSharedSource) {
  manual_seed(11);
  const std::vector<double> first = Tensor::rand(4, DType::f32, device()).to_doubles();
  const std::vector<double> second = Tensor::rand(4, DType::f32, device()).to_doubles();
  EXPECT_NE(first, second);
  manual_seed(11);
  EXPECT_EQ(Tensor::rand(4, DType::f32, device()).to_doubles(), first);
  EXPECT_EQ(Tensor::randn({2, 2}, DType::f32, device()).shape(), (Shape{2, 2}));
  EXPECT_LT(Tensor::randint(0, 3, 10, DType::i32, device()).to(DType::f32).max().item(), 3);
}

TEST(Random, Refused) {
  expect_error<DTypeError>([] { Tensor::rand(2, DType::i32); }, {"Tensor::rand", "i32", "randint"});
  expect_error<DTypeError>([] { Tensor::randn(2, DType::boolean); }, {"Tensor::randn", "bool"});
  expect_error<ValueError>([] { Tensor::randint(3, 3, 2); }, {"Tensor::randint", "from 3 to 3"});
  expect_error<ShapeError>([] { Tensor::rand({2, -1}); }, {"[2, -1]"});
}

}  // namespace
}  // namespace ashlar

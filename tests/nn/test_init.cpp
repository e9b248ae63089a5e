// Values that parameters begin with: bounds, spread and orthogonality.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/init.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn::init {
namespace {

class Init : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Init, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

struct Spread {
  double largest = 0, std = 0;
};
Spread spread_of(const Var& parameter) {
  Spread spread;
  const std::vector<double> values = parameter.value().to_doubles();
  for (const double v : values) {
    spread.largest = std::max(spread.largest, std::abs(v));
    spread.std += v * v;
  }
  spread.std = std::sqrt(spread.std / static_cast<double>(values.size()));
  return spread;
}

TEST_P(Init, KaimingAndXavierSpreadAsTheyShould) {
  Random random(3);
  const Var weight(Tensor::empty({40, 60, 3, 3}, DType::f32, device()), true);
  const double in = 60 * 9, out = 40 * 9;
  const auto expect_uniform = [&](double bound) {
    const Spread spread = spread_of(weight);
    EXPECT_LE(spread.largest, bound * (1 + 1e-6));
    EXPECT_GT(spread.largest, 0.99 * bound);
    EXPECT_NEAR(spread.std, bound / std::sqrt(3.0), 0.02 * bound);
  };
  kaiming_uniform_(weight, {.random = &random});
  expect_uniform(std::sqrt(6 / in));
  kaiming_uniform_(weight, {.a = std::sqrt(5.0), .mode = FanMode::fan_out, .random = &random});
  expect_uniform(1 / std::sqrt(out));
  kaiming_normal_(weight, {.nonlinearity = Nonlinearity::tanh, .random = &random});
  EXPECT_NEAR(spread_of(weight).std, 5.0 / 3 / std::sqrt(in), 0.002);
  xavier_uniform_(weight, 2, &random);
  expect_uniform(2 * std::sqrt(6 / (in + out)));
  xavier_normal_(weight, 1, &random);
  EXPECT_NEAR(spread_of(weight).std, std::sqrt(2 / (in + out)), 0.002);
  trunc_normal_(weight, 0, 1, -0.5, 0.5, &random);
  EXPECT_LE(spread_of(weight).largest, 0.5);
  EXPECT_THROW(xavier_uniform_(Var(Tensor::empty({4}, DType::f32, device()))), ShapeError);
}

TEST_P(Init, TheSameSeedGivesTheSameUniformNumbersEverywhere) {
  Random here(9), there(9);
  const Var one(Tensor::empty({7, 11}, DType::f32, device())), other(Tensor::empty({7, 11}));
  uniform_(one, -2, 3, &here);
  uniform_(other, -2, 3, &there);
  EXPECT_EQ(one.value().to_vector<float>(), other.value().to_vector<float>());
  uniform_(one, -2, 3, &here);
  EXPECT_NE(one.value().to_vector<float>(), other.value().to_vector<float>());
}

TEST_P(Init, OrthogonalMatricesAre) {
  Random random(2);
  for (const Shape& shape : {Shape{20, 35}, Shape{35, 20}, Shape{8, 3, 5}, Shape{1, 1}}) {
    const Var weight(Tensor::empty(shape, DType::f32, device()));
    orthogonal_(weight, 2, &random);
    const int64_t rows = shape[0], columns = shape.numel() / rows;
    const std::vector<double> q = weight.value().to_doubles();
    const bool is_wide = rows <= columns;
    const int64_t count = is_wide ? rows : columns, length = is_wide ? columns : rows;
    const auto at = [&](int64_t i, int64_t k) {
      return q[static_cast<size_t>(is_wide ? i * columns + k : k * columns + i)];
    };
    for (int64_t i = 0; i < count; i++) {
      for (int64_t j = 0; j < count; j++) {
        double dot = 0;
        for (int64_t k = 0; k < length; k++) dot += at(i, k) * at(j, k);
        EXPECT_NEAR(dot, i == j ? 4 : 0, 1e-5) << shape.str();
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::nn::init

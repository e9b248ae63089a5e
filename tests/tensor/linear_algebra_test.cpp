// What the operators of linear algebra refuse, and that they are captured. Their numbers: tests/conformance/cases.
#include <cmath>

#include "ashlar/ops/linear_algebra.h"
#include "ashlar/ops/matmul.h"
#include "ashlar/ops/random.h"
#include "runtime/graph/graph.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using testing::OnDevice;

TEST(LinearAlgebra, MatricesHaveToBeThere) {
  const Tensor row = Tensor::zeros({4});
  expect_error<ShapeError>([&] { cholesky(row); }, {"cholesky", "f32[4]", "a matrix, or a batch of them", "reshape"});
  expect_error<ShapeError>([&] { solve_triangular(row, row); }, {"solve_triangular", "f32[4]", "a matrix"});
  expect_error<ShapeError>([&] { qr(row); }, {"qr", "f32[4]", "a matrix"});
  expect_error<ShapeError>([&] { svd(row); }, {"svd", "f32[4]", "a matrix"});
  expect_error<ShapeError>([&] { svd_lowrank(philox_state(1), row, 1); }, {"svd_lowrank", "f32[4]", "a matrix"});
}

TEST(LinearAlgebra, TrianglesAreSquareAndFit) {
  const Tensor tall = Tensor::zeros({4, 3}), square = Tensor::zeros({4, 4}), wide = Tensor::zeros({3, 4});
  expect_error<ShapeError>([&] { cholesky(tall); }, {"cholesky", "f32[4, 3]", "a square matrix"});
  expect_error<ShapeError>([&] { solve_triangular(tall, square); }, {"solve_triangular", "f32[4, 3]", "a square"});
  expect_error<ShapeError>([&] { solve_triangular(square, wide); }, {"f32[3, 4]", "as many rows of b", "left = false"});
  expect_error<ShapeError>([&] { solve_triangular(square, tall, false, false); }, {"f32[4, 3]", "as many columns"});
  expect_error<ShapeError>(
      [] {
        solve_triangular(Tensor::zeros({2, 4, 4}), Tensor::zeros({3, 4, 1}));
      },
      {"solve_triangular", "[2]", "[3]"});
}

TEST(LinearAlgebra, ElementsAreF32) {
  const Tensor x = Tensor::zeros({4, 4}, DType::f16);
  expect_error<DTypeError>([&] { cholesky(x); }, {"cholesky", "f16[4, 4]", "f32"});
  expect_error<DTypeError>([&] { solve_triangular(x, x); }, {"solve_triangular", "f16[4, 4]", "f32"});
  expect_error<DTypeError>([&] { qr(x); }, {"qr", "f16[4, 4]", "f32"});
  expect_error<DTypeError>([&] { svd(x); }, {"svd", "f16[4, 4]", "f32"});
}

TEST(LinearAlgebra, SizesOfSingularValuesAreLimited) {
  expect_error<ValueError>([] { svd(Tensor::zeros({129, 200})); }, {"svd", "f32[129, 200]", "128", "svd_lowrank"});
  const Tensor state = philox_state(1), x = Tensor::zeros({300, 200});
  expect_error<ValueError>([&] { svd_lowrank(state, x, 0); }, {"svd_lowrank", "rank = 0", "a rank from 1"});
  expect_error<ValueError>([&] { svd_lowrank(state, x, 201); }, {"rank = 201", "a rank from 1"});
  expect_error<ValueError>([&] { svd_lowrank(state, x, 121); }, {"rank = 121", "oversampling = 8", "at most 128"});
  expect_error<ValueError>([&] { svd_lowrank(state, x, 3, -1); }, {"oversampling = -1", "0 or more"});
  expect_error<ValueError>([&] { svd_lowrank(state, x, 3, 8, -1); }, {"niter = -1", "0 or more"});
}

class Factors : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Factors, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(Factors, ColumnsBeforeTheFirstPivotThatIsNotPositiveStay) {
  const Tensor x = Tensor::from<float>({4, 0, 0, 2, -1, 0, 2, 0, 9}, {3, 3}, device());
  const std::vector<float> l = cholesky(x).to_vector<float>();
  for (const size_t at : {0, 3, 6}) EXPECT_EQ(l[at], at == 0 ? 2 : 1);
  for (const size_t at : {1, 2, 5}) EXPECT_EQ(l[at], 0);
  for (const size_t at : {4, 7, 8}) EXPECT_TRUE(std::isnan(l[at]));
}

// No transfer, no wait: else capture() throws. Other directions are drawn at each replay.
TEST_P(Factors, ALowRankIsCaptured) {
  std::vector<float> numbers;
  for (int i = 0; i < 60; i++) numbers.push_back(static_cast<float>(i * i % 17));
  const Tensor a = Tensor::from(numbers, {20, 3}, device()), b = Tensor::from(numbers, {3, 20}, device());
  const Tensor x = matmul(a, b), state = philox_state(5, device());
  const std::vector<float> expected = svd(x).s.to_vector<float>();
  SvdLowrankResult result;
  const Graph graph = capture(device(), [&] { result = svd_lowrank(state, x, 3); });
  const int64_t before = state.to_vector<int64_t>()[1];
  for (int round = 1; round <= 2; round++) {
    graph.replay();
    const std::vector<float> s = result.s.to_vector<float>();
    for (size_t k = 0; k < 3; k++) EXPECT_NEAR(s[k], expected[k], 1e-5 * expected[0]);
    EXPECT_EQ(state.to_vector<int64_t>()[1], before + round * 55);  // 11 directions of 20 numbers
  }
}

}  // namespace
}  // namespace ashlar

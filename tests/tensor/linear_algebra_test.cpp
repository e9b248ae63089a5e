// What the operators of linear algebra refuse, and that they are captured. Their numbers: tests/conformance/cases.
#include <cmath>

#include "ashlar/ops.h"
#include "runtime/graph/graph.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"
#include "runtime/tensor/random.h"
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

TEST(LinearAlgebra, ElementsAreFloatsOfUpTo32Bits) {
  for (const DType dtype : {DType::f64, DType::i32}) {
    const Tensor x = Tensor::zeros({4, 4}, dtype);
    const char* came = dtype == DType::f64 ? "f64[4, 4]" : "i32[4, 4]";
    expect_error<DTypeError>([&] { cholesky(x); }, {"cholesky", came, "f32, f16 or bf16"});
    expect_error<DTypeError>([&] { solve_triangular(x, x); }, {"solve_triangular", came, "f32, f16 or bf16"});
    expect_error<DTypeError>([&] { qr(x); }, {"qr", came, "f32, f16 or bf16"});
    expect_error<DTypeError>([&] { svd(x); }, {"svd", came, "f32, f16 or bf16"});
    expect_error<DTypeError>([&] { svd_lowrank(philox_state(1), x, 1); }, {"svd_lowrank", came, "f32, f16 or bf16"});
  }
  const Tensor narrow = Tensor::zeros({4, 4}, DType::f16), wide = Tensor::zeros({4, 4});
  expect_error<DTypeError>([&] { solve_triangular(narrow, wide); }, {"solve_triangular", "f16[4, 4]", "f32[4, 4]"});
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

// Whatever the sizes: more columns than one block has, wide ones, batches, and none.
TEST_P(Factors, OfSixteenBitsAreThoseInF32RoundedOnce) {
  const auto expect_rounded = [](const Tensor& narrow, const Tensor& wide) {
    EXPECT_EQ(narrow.shape(), wide.shape());
    EXPECT_EQ(narrow.to_doubles(), wide.to(narrow.dtype()).to_doubles());
  };
  manual_seed(3);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Shape& shape : {Shape{70, 70}, Shape{6, 4}, Shape{2, 3, 4, 5}, Shape{0, 3, 3}}) {
      const Tensor x = Tensor::rand(shape, dtype, device()), wide = x.to(DType::f32);
      const auto [q, r] = qr(x);
      const auto [wide_q, wide_r] = qr(wide);
      expect_rounded(q, wide_q);
      expect_rounded(r, wide_r);
      const auto [u, s, vh] = svd(x);
      const auto [wide_u, wide_s, wide_vh] = svd(wide);
      expect_rounded(u, wide_u);
      expect_rounded(s, wide_s);
      expect_rounded(vh, wide_vh);
      const auto [some_u, some_s, some_v] = svd_lowrank(philox_state(5, device()), x, 2);
      const auto [some_wide_u, some_wide_s, some_wide_v] = svd_lowrank(philox_state(5, device()), wide, 2);
      expect_rounded(some_u, some_wide_u);
      expect_rounded(some_s, some_wide_s);
      expect_rounded(some_v, some_wide_v);
      const Tensor identity = Tensor::eye(shape[shape.rank() - 2], {}, DType::f32, device());
      const Tensor square =
          add(matmul(wide, wide, {.transpose_b = true}), affine(identity, 4.0, 0.0)).to(dtype);  // positive definite
      expect_rounded(cholesky(square), cholesky(square.to(DType::f32)));
      for (const bool left : {true, false}) {
        const Tensor side = left ? x : x.transpose(-2, -1);
        expect_rounded(solve_triangular(square, side, false, left),
                       solve_triangular(square.to(DType::f32), side.to(DType::f32), false, left));
      }
    }
  }
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

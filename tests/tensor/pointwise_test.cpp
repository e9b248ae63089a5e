// Form::pointwise and Form::broadcast on tensors of any rank and stride, against plain loops.
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/reference.h"
#include "tests/tensor/tables.h"

namespace ashlar {
namespace {

using testing::broadcast_at;
using testing::expect_error;
using testing::OnDevice;
using testing::Operand;
using testing::operand;
using testing::random_integer;
using testing::random_shape;

class Pointwise : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Pointwise, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

Tensor pointwise(const KernelInfo& kernel, const Tensor& x, std::vector<Scalar> scalars = {}) {
  return forms::Pointwise::call(kernel, {.inputs = std::span(&x, 1), .scalars = scalars})[0];
}

Tensor add(const Tensor& a, const Tensor& b, const KernelInfo& kernel = kernels::add) {
  const Tensor inputs[] = {a, b};
  return forms::Broadcast::call(kernel, {.inputs = inputs})[0];
}

TEST_P(Pointwise, AnyRankAndStride) {
  std::mt19937 random(30);
  for (int trial = 0; trial < 40; trial++) {
    const Shape shape = random_shape(random, static_cast<int>(random_integer(random, 0, 6)), 6);
    const Operand x = operand(random, shape, device());
    std::vector<float> expected;
    for (float value : x.values) expected.push_back(-value);
    const Tensor y = pointwise(kernels::neg, x.tensor);
    ASSERT_EQ(y.shape(), shape);
    ASSERT_EQ(y.to_vector<float>(), expected);
    for (float& value : expected) value = 2 * -value + 0.5f;
    ASSERT_EQ(pointwise(kernels::affine, x.tensor, {2.0, 0.5}).to_vector<float>(), expected);
    ASSERT_EQ(x.tensor.to_vector<float>(), x.values);
  }
}

// Which the CPU reads one by one, from the last one on where the view is turned round.
TEST_P(Pointwise, LongRowsOfAView) {
  constexpr int64_t kRows = 3, kColumns = 20'000, kWide = 20'011;
  std::vector<float> values;
  for (int64_t i = 0; i < kRows * kWide; i++) values.push_back(static_cast<float>(i));
  const Tensor all = Tensor::from(values, {kRows, kWide}).to(device());
  for (const int64_t step : {1, -1}) {
    const Tensor x = all.slice(1, 5, 5 + kColumns).slice(0, step > 0 ? 0 : -1, step > 0 ? kRows : -kRows - 1, step);
    std::vector<float> expected;
    for (int64_t row = 0; row < kRows; row++) {
      const int64_t from = (step > 0 ? row : kRows - 1 - row) * kWide + 5;
      for (int64_t c = 0; c < kColumns; c++) expected.push_back(2 * static_cast<float>(from + c) + 0.5f);
    }
    ASSERT_EQ(x.shape(), (Shape{kRows, kColumns}));
    EXPECT_EQ(pointwise(kernels::affine, x, {2.0, 0.5}).to_vector<float>(), expected) << step;
  }
}

TEST_P(Pointwise, Empty) {
  EXPECT_EQ(pointwise(kernels::neg, Tensor::empty({3, 0}, DType::f32, device())).shape(), (Shape{3, 0}));
}

TEST_P(Pointwise, BroadcastsAnyRankAndStride) {
  std::mt19937 random(31);
  for (int trial = 0; trial < 80; trial++) {
    const Shape shape = random_shape(random, static_cast<int>(random_integer(random, 0, 7)), 4);
    const Operand a = testing::broadcastable(random, shape, device()),
                  b = testing::broadcastable(random, shape, device());
    const Shape full = broadcast("test", a.tensor.shape(), b.tensor.shape());
    std::vector<float> sums, differences;
    testing::for_each_index(full, [&](const Shape& index) {
      sums.push_back(broadcast_at(a, index) + broadcast_at(b, index));
      differences.push_back(broadcast_at(a, index) - broadcast_at(b, index));
    });
    const Tensor y = add(a.tensor, b.tensor);
    ASSERT_EQ(y.shape(), full);
    ASSERT_EQ(y.to_vector<float>(), sums) << a.tensor.shape().str() << a.tensor.strides().str() << " + "
                                          << b.tensor.shape().str() << b.tensor.strides().str();
    ASSERT_EQ(add(a.tensor, b.tensor, kernels::sub).to_vector<float>(), differences);
  }
}

// As in PyTorch a result lies as the operands of its size do, whatever broadcasts beside them.
TEST_P(Pointwise, BroadcastsBesideAPermutedOperand) {
  std::mt19937 random(33);
  const Shape axes{2, 0, 1};
  const Operand base = operand(random, {5, 7, 67}, device());
  const Tensor x = base.tensor.contiguous().permute(axes), row = operand(random, {5, 1}, device()).tensor;
  const Tensor y = add(row, x), dense = add(row, x.contiguous());
  EXPECT_EQ(y.strides(), x.strides());
  EXPECT_TRUE(dense.is_contiguous());
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(y.to_vector<float>(), dense.to_vector<float>());
  EXPECT_TRUE(add(x, x.contiguous()).is_contiguous());
}

TEST_P(Pointwise, BroadcastsBigRowsAndColumns) {
  std::mt19937 random(32);
  const Operand x = operand(random, {67, 259}, device()), row = operand(random, {259}, device());
  const Operand column = operand(random, {67, 1}, device());
  std::vector<float> by_row, by_column;
  testing::for_each_index({67, 259}, [&](const Shape& index) {
    by_row.push_back(x.at(index) * broadcast_at(row, index));
    by_column.push_back(broadcast_at(column, index) * x.at(index));
  });
  EXPECT_EQ(add(x.tensor, row.tensor, kernels::mul).to_vector<float>(), by_row);
  EXPECT_EQ(add(column.tensor, x.tensor, kernels::mul).to_vector<float>(), by_column);
}

TEST_P(Pointwise, SixLoopsThatDontMerge) {
  // Every second dimension of each operand is broadcast, so nothing merges and two loops run outside of the kernel.
  std::mt19937 random(33);
  const Operand a = operand(random, {3, 1, 2, 1, 3, 1}, device()), b = operand(random, {1, 2, 1, 4, 1, 5}, device());
  std::vector<float> expected;
  testing::for_each_index({3, 2, 2, 4, 3, 5}, [&](const Shape& index) {
    expected.push_back(broadcast_at(a, index) + broadcast_at(b, index));
  });
  EXPECT_EQ(add(a.tensor, b.tensor).to_vector<float>(), expected);
}

TEST_P(Pointwise, BroadcastsEmptyAxes) {
  const Tensor none = Tensor::empty({0, 3}, DType::f32, device());
  EXPECT_EQ(add(none, Tensor::ones({1, 3}, DType::f32, device())).shape(), (Shape{0, 3}));
  EXPECT_EQ(add(Tensor::ones({}, DType::f32, device()), none).shape(), (Shape{0, 3}));
}

TEST_P(Pointwise, HalfFloats) {
  const Tensor a = Tensor::full({2, 3}, 1.5, DType::f16, device()), b = Tensor::full({3}, 0.25, DType::f16, device());
  const Tensor y = add(a, b);
  EXPECT_EQ(y.dtype(), DType::f16);
  EXPECT_EQ(y.to(DType::f32).to_vector<float>(), std::vector<float>(6, 1.75f));
  EXPECT_EQ(add(a.to(DType::bf16), b.to(DType::bf16), kernels::equal).to(DType::f32).to_vector<float>(),
            std::vector<float>(6, 0));
}

TEST_P(Pointwise, Errors) {
  const Tensor x = Tensor::ones({2, 3}, DType::f32, device());
  expect_error<ShapeError>([&] { add(x, Tensor::ones({2}, DType::f32, device())); },
                           {"add", "[2, 3] and [2]", "equal or 1"});
  EXPECT_EQ(add(x, Tensor::ones({2, 3}, DType::f64, device())).dtype(), DType::f64);
  EXPECT_EQ(add(x, Tensor::ones({2, 3}, DType::boolean, device())).to_vector<float>(), std::vector<float>(6, 2));
  expect_error<ValueError>([&] { add(x, Tensor()); }, {"add", "undefined"});
  expect_error<ValueError>([&] { forms::Broadcast::call(kernels::add, {.inputs = std::span(&x, 1)}); },
                           {"add", "1 tensors", "2"});
  if (device() != Device::cpu()) {
    expect_error<DeviceError>(
        [&] {
          add(x, Tensor::ones({2, 3}));
        },
        {"add", "on cpu", device().str().c_str(), "to(Device)"});
  }
}

TEST_P(Pointwise, TooBigForOneKernel) {
  // 2^31 elements that take no memory; what they would become doesn't fit anywhere either.
  const testing::LittleMemory little(device());
  const Tensor one = Tensor::ones({1}, DType::f32, device());
  const Tensor huge = one.broadcast_to({int64_t{1} << 40, int64_t{1} << 10});
  expect_error<OutOfMemory>([&] { pointwise(kernels::neg, huge); }, {});
  expect_error<OutOfMemory>([&] { add(huge, one); }, {});
  EXPECT_EQ(add(one, one).item(), 2);
}

}  // namespace
}  // namespace ashlar

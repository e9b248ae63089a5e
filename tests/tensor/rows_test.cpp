// Form::rows along any axis, against plain loops.
#include <cmath>

#include "runtime/support/error.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/reference.h"
#include "tests/tensor/tables.h"

namespace ashlar {
namespace {

using testing::expect_error;
using testing::OnDevice;
using testing::Operand;
using testing::operand;
using testing::random_integer;
using testing::random_shape;

class Rows : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Rows, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

Tensor softmax(const Tensor& x, int64_t axis) { return forms::rows(kernels::softmax, std::span(&x, 1), axis)[0]; }

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, int64_t axis = 1) {
  const Tensor inputs[] = {logits, labels};
  return forms::rows(kernels::cross_entropy, inputs, axis)[0];
}

/// log Σ exp along `axis` through `index`.
double log_sum_exp(const Operand& x, Shape index, int axis) {
  double sum = 0;
  for (index[axis] = 0; index[axis] < x.tensor.shape()[axis]; index[axis]++) sum += std::exp(double{x.at(index)});
  return std::log(sum);
}

TEST_P(Rows, AnyAxisRankAndStride) {
  std::mt19937 random(40);
  for (int trial = 0; trial < 40; trial++) {
    const int rank = static_cast<int>(random_integer(random, 1, 5));
    const Operand x = operand(random, random_shape(random, rank, 7), device());
    const int axis = static_cast<int>(random_integer(random, 0, rank - 1));
    const Tensor y = softmax(x.tensor, trial % 2 == 0 ? axis : axis - rank);
    ASSERT_EQ(y.shape(), x.tensor.shape());
    const std::vector<float> got = y.to_vector<float>();
    size_t place = 0;
    testing::for_each_index(x.tensor.shape(), [&](const Shape& index) {
      ASSERT_NEAR(got[place++], std::exp(x.at(index) - log_sum_exp(x, index, axis)), 1e-6) << "trial " << trial;
    });
  }
}

TEST_P(Rows, OneResultPerRow) {
  std::mt19937 random(41);
  for (int axis : {0, 1, 2}) {
    const Operand x = operand(random, {4, 5, 6}, device());
    Shape row_shape = x.tensor.shape();
    row_shape.erase(axis);
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < row_shape.numel(); i++)
      labels.push_back(random_integer(random, 0, x.tensor.shape()[axis] - 1));
    const Tensor loss = cross_entropy(x.tensor, testing::scattered(random, labels, row_shape, device()), axis);
    ASSERT_EQ(loss.shape(), row_shape);
    const std::vector<float> got = loss.to_vector<float>();
    size_t place = 0;
    testing::for_each_index(row_shape, [&](Shape index) {
      index.insert(axis, labels[place]);
      ASSERT_NEAR(got[place++], log_sum_exp(x, index, axis) - x.at(index), 1e-5);
    });
  }
}

TEST_P(Rows, Empty) {
  EXPECT_EQ(softmax(Tensor::empty({0, 5}, DType::f32, device()), 1).shape(), (Shape{0, 5}));
  EXPECT_EQ(softmax(Tensor::empty({5, 0}, DType::f32, device()), 1).shape(), (Shape{5, 0}));
  EXPECT_EQ(softmax(Tensor::empty({5, 0}, DType::f32, device()), 0).shape(), (Shape{5, 0}));
  const Tensor no_labels = Tensor::empty({0}, DType::i64, device());
  EXPECT_EQ(cross_entropy(Tensor::empty({0, 5}, DType::f32, device()), no_labels).shape(), Shape{0});
  // Rows without columns have no loss.
  expect_error<ShapeError>(
      [&] {
        cross_entropy(Tensor::empty({2, 0}, DType::f32, device()), Tensor::zeros({2}, DType::i64, device()));
      },
      {"cross_entropy", "f32[2, 0]", "at least one column"});
}

TEST_P(Rows, Errors) {
  const Tensor x = Tensor::ones({2, 3}, DType::f32, device());
  expect_error<IndexError>([&] { softmax(x, 2); }, {"softmax", "axis 2"});
  expect_error<IndexError>([&] { softmax(Tensor::ones({}, DType::f32, device()), 1); }, {"softmax", "axis 1"});
  expect_error<ShapeError>([&] { cross_entropy(x, Tensor::zeros({3}, DType::i64, device())); },
                           {"cross_entropy", "f32[2, 3]", "i64[3]", "of shape [2]"});
  expect_error<DTypeError>([&] { cross_entropy(x, Tensor::zeros({2}, DType::i32, device())); },
                           {"cross_entropy", "i32[2]", "of i64", "to(DType::i64)"});
  if (device() != Device::cpu()) {
    expect_error<DeviceError>([&] { cross_entropy(x, Tensor::zeros({2}, DType::i64)); },
                              {"cross_entropy", "to(Device)"});
  }
}

}  // namespace
}  // namespace ashlar

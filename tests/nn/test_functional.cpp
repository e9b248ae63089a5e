// Windows over one axis and paddings by name, against plain loops and against the modules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ashlar/ad.h"
#include "autograd/autograd.h"
#include "nn/functional.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

using testing::expect_error;
using Doubles = std::vector<double>;

class Functional : public testing::OnDevice {
 protected:
  Var numbers(const Shape& shape) const { return Var(Tensor::randn(shape).to(device()), true); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Functional, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

void expect_near(const Var& got, const Doubles& expected) {
  const Doubles values = got.value().to_doubles();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); i++) EXPECT_NEAR(values[i], expected[i], 1e-5) << "element " << i;
}

/// y[o, q] = Σ weight[o, c, j] x[c, q + j dilation - before]
Doubles convolved(const Doubles& x, const Doubles& w, int64_t in, int64_t out, int64_t length, int64_t k,
                  int64_t dilation, int64_t before, int64_t results) {
  Doubles y;
  for (int64_t o = 0; o < out; o++) {
    for (int64_t q = 0; q < results; q++) {
      double sum = 0;
      for (int64_t c = 0; c < in; c++) {
        for (int64_t j = 0; j < k; j++) {
          const int64_t at = q + j * dilation - before;
          if (at >= 0 && at < length) {
            sum += w[static_cast<size_t>((o * in + c) * k + j)] * x[static_cast<size_t>(c * length + at)];
          }
        }
      }
      y.push_back(sum);
    }
  }
  return y;
}

TEST_P(Functional, ConvolutionsPadByName) {
  for (const int64_t k : {1, 2, 3, 4}) {
    for (const int64_t dilation : {1, 3}) {
      const Var x = numbers({2, 11}), w = numbers({3, 2, k});
      const int64_t more = dilation * (k - 1);
      const auto loop = [&](int64_t before, int64_t results) {
        return convolved(x.value().to_doubles(), w.value().to_doubles(), 2, 3, 11, k, dilation, before, results);
      };
      const Var same = conv1d(x, w, {}, {1}, Padding::same, {dilation});
      EXPECT_EQ(same.shape(), (Shape{3, 11}));
      expect_near(same, loop(more / 2, 11));
      expect_near(conv1d(x, w, {}, {1}, Padding::valid, {dilation}), loop(0, 11 - more));
      // The same along the rows of an image of one column, and its gradient.
      const Var tall = conv2d(x.reshape({2, 11, 1}), w.reshape({3, 2, k, 1}), {}, {1}, Padding::same, {dilation, 1});
      expect_near(tall, loop(more / 2, 11));
      const Var by_name = grad({ad::sum(ad::mul(same, same))}, {w})[0];
      const Var by_image = grad({ad::sum(ad::mul(tall, tall))}, {w})[0];
      EXPECT_LT(ashlar::amax(ashlar::abs(ashlar::sub(by_name.value(), by_image.value()))).item(), 1e-3);
    }
  }
  const Var x = numbers({2, 11}), w = numbers({3, 2, 3});
  expect_error<ValueError>([&] { conv1d(x, w, {}, {2}, Padding::same); }, {"conv1d", "stride of 2"});
  expect_error<ShapeError>([&] { conv1d(x, w.reshape({3, 6}), {}, {1}, Padding::same); }, {"conv1d", "weight"});
}

TEST_P(Functional, TransposedConvolutionIsTheGradient) {
  // conv_transpose1d(dy, w) is the gradient of conv1d(x, w) by x.
  const Var x = numbers({2, 4, 12}), w = numbers({6, 2, 3});
  const Var y = ad::conv1d(x, w, {}, {2}, {1}, {2}, 2);
  const Var dy = numbers(y.shape());
  const Var wanted = grad({y}, {x}, {dy})[0];
  const int64_t least = (y.size(2) - 1) * 2 - 2 + 2 * 2 + 1;
  const Var got = conv_transpose1d(dy, w, {}, {2}, {1}, {12 - least}, 2, {2});
  ASSERT_EQ(got.shape(), x.shape());
  expect_near(got, wanted.value().to_doubles());
  expect_error<ShapeError>([&] { conv_transpose1d(dy.reshape({dy.value().numel()}), w); }, {"conv_transpose1d"});
}

TEST_P(Functional, PoolsOverOneAxis) {
  const Var x = numbers({2, 3, 11});
  const Doubles values = x.value().to_doubles();
  Doubles largest, mean, padded_mean, adaptive, adaptive_largest;
  for (int64_t row = 0; row < 6; row++) {
    const double* at = values.data() + row * 11;
    for (int64_t q = 0; q < 5; q++) {  // of 3, in steps of 2
      largest.push_back(*std::max_element(at + 2 * q, at + 2 * q + 3));
      mean.push_back((at[2 * q] + at[2 * q + 1] + at[2 * q + 2]) / 3);
    }
    for (int64_t q = 0; q < 4; q++) {  // of 3, beside each other, with one of padding
      double sum = 0;
      for (int64_t i = std::max<int64_t>(3 * q - 1, 0); i < std::min<int64_t>(3 * q + 2, 11); i++) sum += at[i];
      padded_mean.push_back(sum / 3);
      const int64_t from = q * 11 / 4, to = ((q + 1) * 11 + 3) / 4;
      adaptive_largest.push_back(*std::max_element(at + from, at + to));
      sum = 0;
      for (int64_t i = from; i < to; i++) sum += at[i];
      adaptive.push_back(sum / static_cast<double>(to - from));
    }
  }
  expect_near(max_pool1d(x, {3}, {2}), largest);
  expect_near(avg_pool1d(x, {3}, {2}), mean);
  expect_near(avg_pool1d(x, {3}, {}, {1}), padded_mean);
  expect_near(adaptive_avg_pool1d(x, {4}), adaptive);
  expect_near(adaptive_max_pool1d(x, {4}), adaptive_largest);
  EXPECT_EQ(max_pool1d(x.select(0, 0), {3}).shape(), (Shape{3, 3}));
  const Var slope = grad({ad::sum(avg_pool1d(x, {11}))}, {x})[0];
  expect_near(slope, Doubles(66, 1.0 / 11));
  expect_error<ShapeError>([&] { max_pool1d(x.unsqueeze(0), {3}); }, {"max_pool1d", "length"});
  expect_error<ValueError>([&] { max_pool1d(x, {3, 3}); }, {"max_pool1d"});
}

}  // namespace
}  // namespace ashlar::nn

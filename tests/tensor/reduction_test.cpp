// Form::reduction over any axes, against plain loops.
#include <cmath>
#include <limits>

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

class Reduction : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Reduction, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

/// What each result should be: the sum, the mean's count, the maximum, and the first place that has it.
struct Expected {
  Shape shape;
  std::vector<double> sums, maxima;
  std::vector<int64_t> places;
  int64_t count = 1;
};

Expected expected(const Operand& x, unsigned reduced, bool keepdim) {
  Expected result;
  Shape kept, inner;
  for (int i = 0; i < x.tensor.rank(); i++) {
    const bool is_reduced = reduced >> i & 1;
    if (!is_reduced || keepdim) result.shape.push_back(is_reduced ? 1 : x.tensor.shape()[i]);
    (is_reduced ? inner : kept).push_back(x.tensor.shape()[i]);
  }
  result.count = inner.numel();
  testing::for_each_index(kept, [&](const Shape& outside) {
    double sum = 0, best = -std::numeric_limits<double>::infinity();
    int64_t place = 0, best_place = 0;
    testing::for_each_index(inner, [&](const Shape& inside) {
      Shape index = x.tensor.shape();
      int o = 0, n = 0;
      for (int i = 0; i < index.rank(); i++) index[i] = reduced >> i & 1 ? inside[n++] : outside[o++];
      const double value = x.at(index);
      sum += value;
      if (value > best) {
        best = value;
        best_place = place;
      }
      place++;
    });
    result.sums.push_back(sum);
    result.maxima.push_back(best);
    result.places.push_back(best_place);
  });
  return result;
}

void check(const Operand& x, unsigned reduced, bool keepdim, const std::string& where) {
  Axes axes;
  for (int i = 0; i < x.tensor.rank(); i++) {
    if (reduced >> i & 1) axes.push_back(i % 2 == 0 ? i : i - x.tensor.rank());
  }
  const Expected wanted = expected(x, reduced, keepdim);
  const auto run = [&](const KernelInfo& kernel) {
    const Tensor y = forms::reduction(kernel, x.tensor, axes, keepdim);
    EXPECT_EQ(y.shape(), wanted.shape) << where;
    return y;
  };
  const std::vector<float> sums = run(kernels::sum).to_vector<float>(), means = run(kernels::mean).to_vector<float>();
  const std::vector<float> maxima = run(kernels::max).to_vector<float>();
  const std::vector<int64_t> places = run(kernels::argmax).to_vector<int64_t>();
  ASSERT_EQ(sums.size(), wanted.sums.size());
  const double count = static_cast<double>(wanted.count);
  for (size_t i = 0; i < sums.size(); i++) {
    ASSERT_NEAR(sums[i], wanted.sums[i], 1e-5 * 8 * count) << where;
    ASSERT_NEAR(means[i], wanted.sums[i] / count, 1e-5 * 8) << where;
    ASSERT_EQ(maxima[i], wanted.maxima[i]) << where;
    ASSERT_EQ(places[i], wanted.places[i]) << where;
  }
}

TEST_P(Reduction, AnyAxesRankAndStride) {
  std::mt19937 random(50);
  for (int trial = 0; trial < 60; trial++) {
    const int rank = static_cast<int>(random_integer(random, 1, 6));
    const Operand x = operand(random, random_shape(random, rank, 5), device());
    const unsigned reduced = static_cast<unsigned>(random_integer(random, 1, (1 << rank) - 1));
    check(x, reduced, trial % 2 == 0,
          "trial " + std::to_string(trial) + " " + x.tensor.shape().str() + " strides " + x.tensor.strides().str() +
              " axes " + std::to_string(reduced));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Reduction, NoAxesMeansAll) {
  std::mt19937 random(51);
  const Operand x = operand(random, {3, 4}, device());
  const Expected wanted = expected(x, 3, false);
  EXPECT_EQ(forms::reduction(kernels::sum, x.tensor, {}, false).shape(), Shape{});
  EXPECT_EQ(forms::reduction(kernels::sum, x.tensor, {}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(forms::reduction(kernels::sum, x.tensor, {}, false).item(), wanted.sums[0]);
  EXPECT_EQ(forms::reduction(kernels::sum, x.tensor.select(0, 1).select(0, 2), {}, false).item(), x.at({1, 2}));
}

TEST_P(Reduction, LongOnesInTwoPasses) {
  std::mt19937 random(52);
  for (const Shape& shape : {Shape{300000}, Shape{2, 131073}, Shape{131101, 3}}) {
    Operand x;
    x.values = testing::eighths(random, shape.numel());
    x.tensor = Tensor::from(x.values, shape, device());
    const int long_axis = shape[0] > 1000 ? 0 : 1;
    check(x, 1u << long_axis, false, shape.str());
    check(x, (1u << shape.rank()) - 1, true, shape.str());
  }
}

// Three loops over kept axes, two without the gaps.
TEST_P(Reduction, ViewsWithGaps) {
  std::mt19937 random(53);
  const Tensor all = Tensor::from(testing::eighths(random, 3 * 4 * 6 * 9), {3, 4, 6, 9}, device());
  const Tensor x = all.slice(3, 0, 7), dense = x.contiguous();
  for (const Axes& axes : {Axes{1}, Axes{0, 2}, Axes{2}}) {
    const auto of = [&](const KernelInfo& kernel, const Tensor& view) {
      return forms::reduction(kernel, view, axes, false);
    };
    EXPECT_EQ(of(kernels::sum, x).to_vector<float>(), of(kernels::sum, dense).to_vector<float>()) << axes.str();
    EXPECT_EQ(of(kernels::argmax, x).to_vector<int64_t>(), of(kernels::argmax, dense).to_vector<int64_t>());
  }
}

TEST_P(Reduction, BroadcastInputs) {
  const Tensor x = Tensor::full({1}, 0.5, DType::f32, device()).broadcast_to({3, 1000});
  EXPECT_EQ(forms::reduction(kernels::sum, x, {}, false).item(), 1500);
  EXPECT_EQ(forms::reduction(kernels::sum, x, {1}, false).to_vector<float>(), std::vector<float>(3, 500));
}

TEST_P(Reduction, AccumulatesHalvesInFloat) {
  // 4096 ones plus 1/16: beyond f16's digits on the way, exact in float, rounded once at the end.
  for (DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = Tensor::full({4096}, 1.0 / 16, dtype, device());
    const Tensor y = forms::reduction(kernels::sum, x, {}, false);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.item(), 256);
    EXPECT_EQ(forms::reduction(kernels::mean, x, {}, false).item(), 1.0 / 16);
  }
  const Tensor doubles = Tensor::full({1000}, 1 + 0x1p-40, DType::f64, device());
  EXPECT_EQ(forms::reduction(kernels::sum, doubles, {}, false).item(), 1000 * (1 + 0x1p-40));
}

TEST_P(Reduction, EmptyAxes) {
  const Tensor x = Tensor::empty({3, 0, 2}, DType::f32, device());
  EXPECT_EQ(forms::reduction(kernels::sum, x, {1}, false).to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_EQ(forms::reduction(kernels::sum, x, {}, false).item(), 0);
  for (float value : forms::reduction(kernels::mean, x, {1}, true).to_vector<float>()) EXPECT_TRUE(std::isnan(value));
  expect_error<ShapeError>([&] { forms::reduction(kernels::max, x, {1}, false); }, {"max", "f32[3, 0, 2]"});
  expect_error<ShapeError>([&] { forms::reduction(kernels::argmax, x, {}, false); }, {"argmax", "f32[3, 0, 2]"});
  // No results at all is no problem for anyone.
  for (const KernelInfo* kernel : {&kernels::sum, &kernels::mean, &kernels::max, &kernels::argmax}) {
    EXPECT_EQ(forms::reduction(*kernel, x, {0}, false).shape(), (Shape{0, 2}));
    EXPECT_EQ(forms::reduction(*kernel, Tensor::empty({0, 0}, DType::f32, device()), {0}, false).shape(), Shape{0});
  }
}

TEST_P(Reduction, OfOneElementIsACopyOrItsPlace) {
  const Tensor x = Tensor::arange(3, DType::f32, device()).reshape({3, 1});
  for (const KernelInfo* kernel : {&kernels::sum, &kernels::mean, &kernels::max}) {
    const Tensor y = forms::reduction(*kernel, x, {1}, false);
    EXPECT_EQ(y.shape(), Shape{3});
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 1, 2})) << kernel->name;
    EXPECT_NE(y.storage(), x.storage()) << kernel->name;
  }
  EXPECT_EQ(forms::reduction(kernels::argmax, x, {1}, true).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0}));
  for (const int64_t columns : {1, 2}) {
    const Tensor integers = Tensor::ones({3, columns}, DType::i32, device());
    expect_error<MissingKernel>([&] { forms::reduction(kernels::mean, integers, {1}, false); }, {"mean", "i32"});
  }
}

TEST_P(Reduction, Errors) {
  const Tensor x = Tensor::ones({2, 3}, DType::f32, device());
  expect_error<IndexError>([&] { forms::reduction(kernels::sum, x, {2}, false); }, {"sum", "axis 2"});
  const Tensor scalar = Tensor::full({}, 3, DType::f32, device());
  for (const int64_t axis : {0, -1}) EXPECT_EQ(forms::reduction(kernels::sum, scalar, {axis}, false).item(), 3);
  expect_error<IndexError>([&] { forms::reduction(kernels::sum, scalar, {1}, false); }, {"sum", "axis 1"});
  expect_error<ValueError>([&] { forms::reduction(kernels::sum, scalar, {0, -1}, false); }, {"at most once"});
  expect_error<ValueError>([&] { forms::reduction(kernels::sum, x, {1, -1}, false); }, {"sum", "[1, -1]", "once"});
  expect_error<ValueError>([&] { forms::reduction(kernels::sum, Tensor(), {}, false); }, {"sum", "undefined"});
  // Over 2^31 elements, none of them in memory.
  const Tensor huge = x.select(0, 0).select(0, 0).broadcast_to({1 << 16, 1 << 16});
  expect_error<ShapeError>([&] { forms::reduction(kernels::sum, huge, {}, false); },
                           {"sum", "at most 2146435072 elements"});
}

}  // namespace
}  // namespace ashlar

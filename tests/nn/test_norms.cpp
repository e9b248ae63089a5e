// Normalisation by rows, channels and groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "autograd/grad.h"
#include "nn/modules/channel_norm.h"
#include "nn/modules/normalization.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class NormsOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, NormsOnDevice, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

std::vector<std::string> names_of(const NamedVars& vars) {
  std::vector<std::string> names;
  for (const auto& [name, var] : vars) names.push_back(name);
  return names;
}

TEST_P(NormsOnDevice, NormsWorkOnRows) {
  Random random(3);
  const Tensor x = Tensor::randn({5, 2, 3}, random);
  const auto values = x.to_vector<float>();
  const auto check = [&](const Var& y, size_t columns, bool centred, double eps) {
    const auto got = y.value().to_vector<float>();
    ASSERT_EQ(got.size(), values.size());
    for (size_t row = 0; row < values.size() / columns; row++) {
      double mean = 0, squares = 0;
      for (size_t c = 0; c < columns; c++) mean += values[row * columns + c] / static_cast<double>(columns);
      if (!centred) mean = 0;
      for (size_t c = 0; c < columns; c++) {
        squares +=
            (values[row * columns + c] - mean) * (values[row * columns + c] - mean) / static_cast<double>(columns);
      }
      for (size_t c = 0; c < columns; c++) {
        const size_t i = row * columns + c;
        EXPECT_NEAR(got[i], (values[i] - mean) / std::sqrt(squares + eps), 2e-5);
      }
    }
  };
  const LayerNorm layer(3, {.device = device()}), wide({2, 3}, {.device = device()});
  check(layer(x.to(device())), 3, true, 1e-5);
  check(wide(x.to(device())), 6, true, 1e-5);
  check(RMSNorm(3, {.device = device()})(x.to(device())), 3, false, 0x1p-23);
  check(RMSNorm({2, 3}, {.eps = 0.5, .device = device()})(x.to(device())), 6, false, 0.5);
  check(LayerNorm({2, 3}, {.elementwise_affine = false})(x), 6, true, 1e-5);
  EXPECT_EQ(names_of(wide.named_parameters()), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(wide.parameters()[0].shape(), (Shape{2, 3}));
  backward(ad::sum(wide(x.to(device()))));
  EXPECT_EQ(wide.parameters()[1].grad().to_vector<float>(), std::vector<float>(6, 5));
  EXPECT_THROW(layer(Tensor::ones({3, 2}).to(device())), ShapeError);
  EXPECT_THROW(LayerNorm(0), ValueError);

  // Of a residual stream: the same in one pass.
  const RMSNorm rms({2, 3}, {.device = device()});
  const auto check_stream = [&](const auto& norm) {
    const Var a(x.to(device()), true), b(affine(x.to(device()), -0.5, 1.0), true);
    const ResultOfSum stream = norm.of_sum(a, b);
    const Var h = ad::add(a, b), y = norm.forward(h);
    EXPECT_EQ(stream.h.value().to_doubles(), h.value().to_doubles());
    const std::vector<double> got = stream.y.value().to_doubles(), wanted = y.value().to_doubles();
    for (size_t i = 0; i < wanted.size(); i++) EXPECT_NEAR(got[i], wanted[i], 1e-5);
    const auto slope = [&](const Var& of, const Var& beside) {
      return grad({ad::sum(ad::mul(of, ad::add(of, beside)))}, {a})[0].value().to_doubles();
    };
    const std::vector<double> slopes = slope(stream.y, stream.h), slopes_wanted = slope(y, h);
    for (size_t i = 0; i < slopes_wanted.size(); i++) EXPECT_NEAR(slopes[i], slopes_wanted[i], 2e-4);
  };
  check_stream(layer);
  check_stream(wide);
  check_stream(rms);
  EXPECT_THROW(layer.of_sum(x.to(device()), Tensor::ones({3, 2}).to(device())), ShapeError);
}

// Two batches of one channel, whose means, variances and running statistics one can work out by hand.
TEST_P(NormsOnDevice, BatchNormKeepsRunningStatistics) {
  BatchNorm1d norm(2, {.device = device()});
  const auto values = [](const Var& x) { return x.value().to_vector<float>(); };
  const auto near = [](const std::vector<float>& got, const std::vector<float>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
  };
  const Var x(Tensor::from({1.F, 10.F, 3.F, 10.F, 5.F, 40.F}, {3, 2}).to(device()));
  near(values(norm(x)), {-1.224743F, -0.707107F, 0, -0.707107F, 1.224743F, 1.414214F});
  NamedVars buffers = norm.named_buffers();
  EXPECT_EQ(names_of(buffers), (std::vector<std::string>{"running_mean", "running_var", "num_batches_tracked"}));
  near(values(buffers[0].second), {0.3F, 2});      // a tenth of 3 and of 20
  near(values(buffers[1].second), {1.3F, 30.9F});  // 0.9 and a tenth of 4 and of 300
  EXPECT_EQ(buffers[2].second.value().item(), 1);
  norm.eval();
  near(values(norm(Var(Tensor::from({0.3F, 2.F}, {1, 2}).to(device())))), {0, 0});
  EXPECT_EQ(norm.named_buffers()[2].second.value().item(), 1);

  BatchNorm2d average(1, {.momentum = {}, .affine = false, .device = device()});
  for (const float level : {1.F, 2.F, 6.F}) {
    average(Var(Tensor::from({level, level, level, level + 4}, {1, 1, 2, 2}).to(device())));
  }
  near(values(average.named_buffers()[0].second), {4});  // the mean of 2, 3 and 7
  EXPECT_TRUE(average.parameters().empty());

  BatchNorm1d untracked(2, {.track_running_stats = false, .device = device()});
  untracked.eval();
  near(values(untracked(x)), values(BatchNorm1d(2, {.device = device()})(x)));
  EXPECT_TRUE(untracked.named_buffers().empty());

  EXPECT_THROW(norm(Var(Tensor::ones({3, 3}).to(device()))), ShapeError);
  EXPECT_THROW(norm(Var(Tensor::ones({3, 2, 2, 2}).to(device()))), ShapeError);
  EXPECT_THROW(BatchNorm1d(2, {.device = device()})(Var(Tensor::ones({1, 2}).to(device()))), ShapeError);
  EXPECT_THROW(BatchNorm1d(0), ValueError);
}

TEST_P(NormsOnDevice, GroupAndInstanceNormTakeEachImageByItself) {
  const Tensor x = Tensor::from({1.F, 2.F, 3.F, 6.F, 0.F, 0.F, 1.F, 1.F}, {1, 4, 2}).to(device());
  const auto values = [](const Var& y) { return y.value().to_vector<float>(); };
  const auto groups = values(GroupNorm(2, 4, {.device = device()})(Var(x)));
  const float wide = 1 / std::sqrt(3.5F + 1e-5F), narrow = 1 / std::sqrt(0.25F + 1e-5F);
  const std::vector<float> want{-2 * wide,     -wide,        0, 3 * wide, -0.5F * narrow, -0.5F * narrow,
                                0.5F * narrow, 0.5F * narrow};
  for (size_t i = 0; i < want.size(); i++) EXPECT_NEAR(groups[i], want[i], 1e-4) << i;
  const auto images = values(InstanceNorm(4)(Var(x)));
  const std::vector<float> ends{-0.99998F, 0.99998F, -1, 1, 0, 0, 0, 0};
  for (size_t i = 0; i < ends.size(); i++) EXPECT_NEAR(images[i], ends[i], 1e-4) << i;
  GroupNorm layer(2, 4, {.device = device()});
  backward(ad::sum(layer(Var(x))));
  EXPECT_EQ(layer.parameters()[1].grad().to_vector<float>(), std::vector<float>(4, 2));
  EXPECT_TRUE(InstanceNorm(4).parameters().empty());
  EXPECT_THROW(GroupNorm(3, 4), ValueError);
  EXPECT_THROW(layer(Var(Tensor::ones({1, 3, 2}).to(device()))), ShapeError);
}

}  // namespace
}  // namespace ashlar::nn

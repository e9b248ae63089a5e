// Dropout: how much, of what, and other numbers at every replay.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "autograd/grad.h"
#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class DropoutOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, DropoutOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

TEST_P(DropoutOnDevice, DropoutDropsAndScales) {
  Random random(4);
  Dropout dropout(0.25, {.device = device(), .random = &random});
  const Var x(Tensor::full({100, 100}, 3, DType::f32, device()), true);
  const auto y = dropout(x).value().to_vector<float>();
  const auto kept = std::ranges::count(y, 4.0F);
  EXPECT_EQ(kept + std::ranges::count(y, 0.0F), 10000);
  EXPECT_NEAR(static_cast<double>(kept), 7500, 5 * 43.3) << "five standard deviations";
  EXPECT_NE(dropout(x).value().to_vector<float>(), y) << "other numbers at every call";
  // The gradient has the mask of its own call, whatever came between.
  const Var first = dropout(x), second = dropout(x);
  backward(ad::sum(first));
  std::vector<float> wanted = first.value().to_vector<float>();
  for (float& value : wanted) value /= 3;
  EXPECT_EQ(x.grad().to_vector<float>(), wanted);
  dropout.eval();
  EXPECT_EQ(dropout(x).value().storage(), x.value().storage());
  EXPECT_TRUE(dropout.state_dict().empty()) << "a file of weights has none of it";
  EXPECT_EQ(dropout.state_dict(Saved::with_checkpoints).size(), 1U);
  EXPECT_THROW(Dropout(1.5), ValueError);
  const auto all = Dropout(1, {.device = device()})(x).value().to_vector<float>();
  EXPECT_EQ(std::ranges::count(all, 0.0F), 10000);
}

TEST_P(DropoutOnDevice, ReplayedDropoutGoesOnWithNewNumbers) {
  Random random(4);
  const Dropout dropout(0.5, {.device = device(), .random = &random}), twin = dropout.clone();
  const Var x(Tensor::ones({64}, DType::f32, device()), true);
  const auto step = [&](const Dropout& module) {
    x.clear_grad();
    const Var y = module(x);
    backward(ad::sum(y));
    return y.value();
  };
  step(dropout);
  step(twin);
  Tensor y, dx;
  const Graph graph = capture(device(), [&] {
    y = step(dropout);
    dx = x.grad();
  });
  for (int replay = 0; replay < 3; replay++) {
    graph.replay();
    const auto values = y.to_vector<float>(), gradients = dx.to_vector<float>();
    EXPECT_EQ(values, gradients);
    EXPECT_EQ(values, step(twin).to_vector<float>()) << "as eager calls do";
  }
}

TEST_P(DropoutOnDevice, DropoutOfChannelsDropsWholeOnes) {
  Random random(3);
  const Dropout2d layer(0.5, {.device = device(), .random = &random});
  const std::vector<float> y = layer(Tensor::ones({8, 16, 2, 3}, DType::f32, device())).value().to_vector<float>();
  int dropped = 0;
  for (size_t channel = 0; channel < 8 * 16; channel++) {
    const float first = y[channel * 6];
    EXPECT_TRUE(first == 0 || first == 2);
    for (size_t i = 1; i < 6; i++) EXPECT_EQ(y[channel * 6 + i], first);
    dropped += first == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 64, 30);  // more than five standard deviations
  EXPECT_THROW(layer(Tensor::ones({4}, DType::f32, device())), ShapeError);
}

}  // namespace
}  // namespace ashlar::nn

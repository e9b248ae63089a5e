// Layers that slide windows over images: shapes, names, and a small network that learns.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "autograd/backward.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/convolution.h"
#include "nn/modules/flatten.h"
#include "nn/modules/linear.h"
#include "nn/modules/padding.h"
#include "nn/modules/pooling.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class ConvolutionOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, ConvolutionOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

struct Stripes {
  Tensor images, labels;
};

/// Images of 10 × 10 with a stripe of four pixels somewhere, label 0 across and 1 down: no linear model tells them
/// apart.
Stripes stripes(int64_t count, uint64_t seed, Device device) {
  Random random(seed);
  std::vector<float> pixels(static_cast<size_t>(count * 100));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; i++) {
    const auto label = static_cast<int64_t>(random.below(2));
    labels.push_back(label);
    const auto along = static_cast<int64_t>(random.below(7)), across = static_cast<int64_t>(random.below(10));
    for (int64_t k = along; k < along + 4; k++) {
      pixels[static_cast<size_t>(i * 100 + (label == 0 ? across * 10 + k : k * 10 + across))] = 1;
    }
  }
  return {Tensor::from(pixels, {count, 1, 10, 10}, device), Tensor::from(labels, {count}, device)};
}

TEST_P(ConvolutionOnDevice, ASmallNetworkLearns) {
  Random random(3);
  Sequential model;
  model.add<Conv2d>(1, 8, 3, Conv2dOptions{.padding = 1, .random = &random}).add<ReLU>().add<MaxPool2d>(2);
  model.add<Conv2d>(8, 8, 3, Conv2dOptions{.padding = 1, .random = &random}).add<ReLU>().add<AdaptiveAvgPool2d>(1);
  model.add<Flatten>().add<Linear>(8, 2, random);
  model.to(device());
  Adam optimizer(model.parameters(), AdamOptions{.learning_rate = 0.02});
  float first = 0, last = 0;
  for (uint64_t step = 0; step < 60; step++) {
    const Stripes batch = stripes(64, 10 + step, device());
    optimizer.zero_grad();
    const Var loss = cross_entropy(model.forward(Var(batch.images)), batch.labels);
    backward(loss);
    optimizer.step();
    last = static_cast<float>(loss.value().item());
    if (step == 0) first = last;
  }
  EXPECT_GT(first, 0.5F);
  EXPECT_LT(last, 0.1F);
}

TEST_P(ConvolutionOnDevice, ShapesAreThoseOfPyTorch) {
  const Var x(Tensor::ones({2, 4, 9, 8}, DType::f32, device()));
  const auto shape = [&](auto&& module) {
    module.to(device());
    return module.forward(x).shape();
  };
  EXPECT_EQ(shape(Conv2d(4, 6, {3, 2}, {.stride = 2, .padding = {1, 0}, .groups = 2})), (Shape{2, 6, 5, 4}));
  EXPECT_EQ(shape(Conv2d(4, 6, 3, {.padding = 1, .bias = false, .padding_mode = PaddingMode::reflect})),
            (Shape{2, 6, 9, 8}));
  EXPECT_EQ(shape(ConvTranspose2d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1})), (Shape{2, 6, 18, 16}));
  EXPECT_EQ(shape(MaxPool2d(3, 2, 1)), (Shape{2, 4, 5, 4}));
  EXPECT_EQ(shape(MaxPool2d(2, {}, 0, 1, true)), (Shape{2, 4, 5, 4}));
  EXPECT_EQ(shape(AvgPool2d(Shape{3, 2})), (Shape{2, 4, 3, 4}));
  EXPECT_EQ(shape(AdaptiveAvgPool2d(Shape{3, 5})), (Shape{2, 4, 3, 5}));
  EXPECT_EQ(shape(ZeroPad2d(Shape{1, 2, 3, 4})), (Shape{2, 4, 16, 11}));
}

// The mean of the padded rows is that of the rows: reflect, replicate and circular read x itself.
TEST_P(ConvolutionOnDevice, PaddingModesReadTheImage) {
  for (const PaddingMode mode : {PaddingMode::reflect, PaddingMode::replicate, PaddingMode::circular}) {
    Conv1d module(1, 1, 3, {.padding = 1, .bias = false, .padding_mode = mode});
    module.to(device());
    const Var x(Tensor::from({1.0F, 2.0F, 4.0F, 8.0F}, {1, 1, 4}, device()));
    const std::vector<float> w = module.weight().value().to_vector<float>();
    const std::vector<float> y = module.forward(x).value().to_vector<float>();
    const float before = mode == PaddingMode::reflect ? 2 : mode == PaddingMode::replicate ? 1 : 8;
    const float behind = mode == PaddingMode::reflect ? 4 : mode == PaddingMode::replicate ? 8 : 1;
    EXPECT_NEAR(y[0], w[0] * before + w[1] * 1 + w[2] * 2, 1e-5);
    EXPECT_NEAR(y[3], w[0] * 4 + w[1] * 8 + w[2] * behind, 1e-5);
  }
}

// With many filters for each channel the gradient by the input is folded, with few of them gathered: their sums agree.
TEST_P(ConvolutionOnDevice, TheInputsGradientIsTheSumOverFilters) {
  constexpr int64_t kFilters = 48, kAtOnce = 12;
  Random random(7);
  const Tensor w = Tensor::randn({kFilters, 3, 3, 2}, random, DType::f32, device()),
               dy = Tensor::randn({2, kFilters, 9, 8}, random, DType::f32, device());
  const auto gradient = [&](int64_t first, int64_t end) {
    return conv2d_input(dy.slice(1, first, end).contiguous(), w.slice(0, first, end).contiguous(), {11, 9});
  };
  Tensor sum = gradient(0, kAtOnce);
  for (int64_t first = kAtOnce; first < kFilters; first += kAtOnce) sum = add(sum, gradient(first, first + kAtOnce));
  const std::vector<float> expected = sum.to_vector<float>(), got = gradient(0, kFilters).to_vector<float>();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], expected[i], 1e-4) << i;
}

// Images of more rows than the CPU works on at once: of ones, an output counts the elements under its window.
TEST_P(ConvolutionOnDevice, ImagesOfAnyHeightAreWhole) {
  for (const int64_t side : {29, 32, 33, 56, 97, 300}) {
    const Var x(Tensor::ones({2, 3, side, side}, DType::f32, device()), true);
    const Var w(Tensor::ones({4, 3, 3, 3}, DType::f32, device()), true);
    const Var y = ad::conv2d(x, w, {}, {1}, {1});
    const std::vector<float> values = y.value().to_vector<float>();
    const auto under = [side](int64_t at) { return at == 0 || at == side - 1 ? 2 : 3; };
    int64_t wrong = 0;
    for (int64_t i = 0; i < y.numel(); i++) {
      wrong += values[static_cast<size_t>(i)] != static_cast<float>(3 * under(i % side) * under(i / side % side));
    }
    EXPECT_EQ(wrong, 0) << side;
    backward(ad::sum(y));
    EXPECT_EQ(x.grad().select(0, 1).select(0, 2).select(0, side - 2).select(0, 1).item(), 4 * 9);
    EXPECT_EQ(w.grad().select(0, 3).select(0, 1).select(0, 0).select(0, 1).item(), 2 * (side - 1) * side);
  }
}

TEST(Convolution, NamesAndFirstValuesAreThoseOfPyTorch) {
  Conv2d module(4, 6, 3, {.groups = 2});
  const NamedVars named = module.named_parameters();
  ASSERT_EQ(named.size(), 2U);
  EXPECT_EQ(named[0].first, "weight");
  EXPECT_EQ(named[0].second.shape(), (Shape{6, 2, 3, 3}));
  EXPECT_EQ(named[1].first, "bias");
  for (const double value : named[0].second.value().to_doubles()) EXPECT_LE(std::abs(value), 1 / std::sqrt(18.0));
}

TEST(Convolution, MistakesAreTold) {
  EXPECT_THROW(Conv2d(3, 4, 3, {.groups = 2}), ValueError);
  EXPECT_THROW(Conv2d(3, 4, Shape{3, 0}), ValueError);
  const Var x(Tensor::ones({1, 3, 4, 4}));
  EXPECT_THROW(Conv2d(2, 4, 3).forward(x), ShapeError);
  EXPECT_THROW(Conv2d(3, 4, 5).forward(x), ShapeError);
  EXPECT_THROW(Conv2d(3, 4, 3, {.stride = 0}).forward(x), ValueError);
  EXPECT_THROW(MaxPool2d(2, 2, 2).forward(x), ValueError);
  EXPECT_THROW(AdaptiveAvgPool2d(0).forward(x), ValueError);
  EXPECT_THROW(Conv2d(3, 4, 3, {.padding = 4, .padding_mode = PaddingMode::reflect}).forward(x), ShapeError);
}

}  // namespace
}  // namespace ashlar::nn

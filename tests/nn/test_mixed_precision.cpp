// Forward and backward in 16 bits over f32 weights, loss scaling, and steps that are left out.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/channel_norm.h"
#include "nn/modules/convolution.h"
#include "nn/modules/linear.h"
#include "nn/modules/normalization.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/optim/mixed_precision.h"
#include "nn/optim/sgd.h"
#include "nn/trainer/fit.h"
#include "runtime/graph/graph.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class AmpOnDevice : public testing::OnDevice {};

/// One weight, whose gradient is `slope` times the scale: a step of SGD says what it was.
struct OneWeight {
  Var w;
  SGD optimizer;
  explicit OneWeight(Device device, double rate = 1)
      : w(Tensor::zeros({1}, DType::f32, device), true), optimizer({w}, {.learning_rate = rate, .momentum = 0.5}) {}
  Var loss(double slope) const { return ad::sum(ad::affine(w, slope, 0.0)); }
};

TEST_P(AmpOnDevice, ComputesIn16BitsAndLeavesF32Behind) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Random random(3);
    Sequential model(Linear(6, 8, random), ReLU(), LayerNorm(8), Linear(8, 2, random));
    model.to(device());
    Sequential narrow = model.clone();
    narrow.to(dtype);
    SGD optimizer(model.parameters(), {.learning_rate = 0});
    MixedPrecision amp(optimizer, dtype);
    const Tensor x = Tensor::randn({5, 6}, random).to(device()).to(dtype);
    const auto loss_of = [&](Sequential& network) {
      const Var y = network(x).to(DType::f32);
      return ad::mean(ad::mul(y, y));
    };
    const Var loss = amp.backward([&] {
      for (const Var& parameter : model.parameters()) EXPECT_EQ(parameter.dtype(), dtype);
      return loss_of(model);
    });
    // The same as a network that is 16 bits wide, with the scale (a power of two) in its seed.
    const Var wanted = loss_of(narrow);
    backward(wanted, {.seed = Tensor::full({}, amp.scale(), DType::f32, device())});
    EXPECT_EQ(loss.item(), wanted.item());
    const auto wide = model.parameters(), seen = narrow.parameters();
    for (size_t i = 0; i < wide.size(); i++) {
      EXPECT_EQ(wide[i].dtype(), DType::f32);
      ASSERT_TRUE(wide[i].grad().defined());
      EXPECT_EQ(wide[i].grad().dtype(), DType::f32);
      const auto gradient = wide[i].grad().to_doubles(), scaled = seen[i].grad().to_doubles();
      for (size_t k = 0; k < gradient.size(); k++) EXPECT_EQ(gradient[k], scaled[k] / amp.scale()) << i << ", " << k;
    }
  }
}

TEST_P(AmpOnDevice, AutocastLendsTheCopiesForAWhile) {
  OneWeight one(device());
  MixedPrecision amp(one.optimizer, DType::bf16);
  one.w.value().fill_(257);
  {
    const MixedPrecision::Autocast scope = amp.autocast();
    EXPECT_EQ(one.w.dtype(), DType::bf16);
    EXPECT_EQ(one.w.value().item(), 256);  // 257 isn't a bf16
    backward(one.loss(3));
  }
  EXPECT_EQ(one.w.dtype(), DType::f32);
  EXPECT_EQ(one.w.value().item(), 257);
  EXPECT_FALSE(one.w.grad().defined());
}

TEST_P(AmpOnDevice, GradientsAddUpInF32) {
  OneWeight one(device());
  Var other(Tensor::ones({2}, DType::f32, device()), true);
  SGD optimizer({one.w, other}, {.learning_rate = 1});
  MixedPrecision amp(optimizer, DType::bf16);
  amp.backward([&] { return one.loss(256); });
  amp.backward([&] { return one.loss(1); });  // 257 isn't a bf16
  EXPECT_EQ(one.w.grad().item(), 257);
  EXPECT_FALSE(other.grad().defined());
  amp.backward([&] { return ad::sum(other); });
  EXPECT_EQ(one.w.grad().item(), 257);
  EXPECT_EQ(other.grad().to_doubles(), (std::vector<double>{1, 1}));
  amp.step();
  EXPECT_EQ(one.w.value().item(), -257);
  EXPECT_EQ(other.value().to_doubles(), (std::vector<double>{0, 0}));
}

/// GradScaler's numbers: PyTorch 1.13's, of a scaler with growth_interval 2 that sees finite gradients f and others n.
TEST_P(AmpOnDevice, ScaleGrowsAndShrinks) {
  OneWeight one(device());
  MixedPrecision amp(one.optimizer, DType::f16, LossScaling{.init_scale = 8, .growth_interval = 2});
  const std::string kinds = "ffnfffnn";
  const std::vector<double> scales{8, 16, 8, 8, 16, 16, 8, 4};
  for (size_t i = 0; i < kinds.size(); i++) {
    one.optimizer.zero_grad();
    amp.backward([&] { return one.loss(kinds[i] == 'f' ? 1 : std::numeric_limits<double>::quiet_NaN()); });
    amp.step();
    EXPECT_EQ(amp.scale(), scales[i]) << i;
  }
  EXPECT_EQ(one.optimizer.steps(), 5);
}

TEST_P(AmpOnDevice, StepWithAnInfinityChangesNothing) {
  for (const bool replayed : {false, true}) {
    Random random(2);
    Sequential model(Linear(3, 4, random), ReLU(), Linear(4, 1, random));
    model.to(device());
    AdamW optimizer(model.parameters(), {.learning_rate = 0.1});
    optimizer.set_clipping({.norm = 1});
    MixedPrecision amp(optimizer, DType::f16, LossScaling{.init_scale = 1024});
    const Tensor x = Tensor::randn({4, 3}, random).to(device()).to(DType::f16);
    const auto step = [&] {
      optimizer.zero_grad();
      amp.backward([&] { return ad::mean(model(x).to(DType::f32)); });
      amp.step();
    };
    step();
    Graph graph;
    if (replayed) graph = capture(device(), step);
    const auto state = [&] {
      std::vector<std::vector<double>> all;
      for (const Tensor& tensor : optimizer.arena_state()) all.push_back(tensor.to_doubles());
      return all;
    };
    const auto before = state();
    const Tensor good = x.clone();
    x[0][0].fill_(std::numeric_limits<double>::infinity());
    replayed ? graph.replay() : step();
    EXPECT_EQ(state(), before);
    EXPECT_EQ(amp.scale(), 512);
    EXPECT_EQ(optimizer.steps(), 1);
    x.copy_(good);
    replayed ? graph.replay() : step();
    EXPECT_NE(state(), before);
    EXPECT_EQ(optimizer.steps(), 2);
    for (const auto& values : state()) {
      for (const double value : values) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

/// A gradient of 1e-6 vanishes in f16 divided by 100 elements, unless the loss is scaled.
TEST_P(AmpOnDevice, SmallGradientsSurviveByScaling) {
  const auto moved = [&](const LossScaling& scaling) {
    OneWeight one(device());
    MixedPrecision amp(one.optimizer, DType::f16, scaling);
    amp.backward([&] { return ad::affine(one.loss(1).to(DType::f32), 1e-8, 0.0); });
    amp.step();
    return -one.w.value().item();
  };
  EXPECT_EQ(moved({.init_scale = 1}), 0);
  EXPECT_NEAR(moved({}), 1e-8, 1e-11);
}

/// A network with a convolution and norms with running statistics learns, in fit(), replayed and interrupted.
std::vector<FitEpoch> learn(Device device, std::optional<DType> amp, const FitOptions& given,
                            std::vector<double>* weights = nullptr, int64_t stop_after = -1) {
  Random random(7);
  const Tensor x = Tensor::randn({96, 2, 6, 6}, random);
  const Tensor y = gt(sum(x, {1, 2, 3}), 0.0).to(DType::i64);
  const TensorDataset data({x, y});
  DataLoader loader(data, {.batch = 16, .shuffle = true, .seed = 5});
  Conv2d convolution(2, 8, 3, {.random = &random});
  BatchNorm2d norm(8);
  Linear head(8, 2, random);
  Sequential model(convolution, norm, ReLU(), head);
  model.to(device);
  Adam optimizer(model.parameters(), {.learning_rate = 0.02});
  int64_t calls = 0;
  const auto loss = [&](const std::vector<Tensor>& batch) {
    if (++calls == stop_after) throw std::runtime_error("interrupted");
    const Var hidden = ad::mean(ad::relu(norm(convolution(batch[0]))), {2, 3});
    return cross_entropy(head(hidden).to(DType::f32), batch[1]);
  };
  FitOptions options = given;
  options.amp = amp;
  const auto epochs = fit({model, optimizer, loader, loss}, options);
  if (weights != nullptr) {
    for (const auto& [name, tensor] : model.state_dict()) {
      EXPECT_TRUE(tensor.dtype() == DType::f32 || !is_floating(tensor.dtype())) << name;
      for (const double value : tensor.to_doubles()) weights->push_back(value);
    }
  }
  return epochs;
}

TEST_P(AmpOnDevice, FitLearnsAsWellAsInF32) {
  const double wide = learn(device(), {}, {.epochs = 6}).back().loss;
  EXPECT_LT(wide, 0.45);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<double> plain, replayed;
    const double narrow = learn(device(), dtype, {.epochs = 6, .replay = false}, &plain).back().loss;
    EXPECT_NEAR(narrow, wide, 0.05) << name_of(dtype);
    EXPECT_NE(narrow, wide);
    learn(device(), dtype, {.epochs = 6, .replay = true}, &replayed);
    EXPECT_EQ(replayed, plain) << name_of(dtype);
  }
}

TEST(Amp, ResumesToTheSameBits) {
  std::vector<double> unbroken, resumed;
  learn(Device::cpu(), DType::f16, {.epochs = 2, .accumulate = 2}, &unbroken);
  const testing::TemporaryFolder folder;
  const FitOptions options{
      .epochs = 2, .accumulate = 2, .checkpoint = folder / "checkpoint", .checkpoint_every = 1, .replay = true};
  EXPECT_THROW(learn(Device::cpu(), DType::f16, options, nullptr, 5), std::runtime_error);
  learn(Device::cpu(), DType::f16, options, &resumed);
  EXPECT_EQ(resumed, unbroken);
}

TEST(Amp, RefusesWhatCannotBe) {
  OneWeight one(Device::cpu());
  EXPECT_THROW(MixedPrecision(one.optimizer, DType::f32), DTypeError);
  EXPECT_THROW(MixedPrecision(one.optimizer, DType::f16, LossScaling{.growth_factor = 1}), ValueError);
  EXPECT_THROW(MixedPrecision(one.optimizer, DType::f16, LossScaling{.init_scale = 0}), ValueError);
  const MixedPrecision amp(one.optimizer, DType::f16), unscaled(one.optimizer, DType::bf16);
  EXPECT_THROW(amp.load_state_dict({}), ValueError);
  EXPECT_TRUE(unscaled.state_dict().empty());
  // What the loss throws leaves the parameters as they were.
  MixedPrecision other(one.optimizer, DType::bf16);
  EXPECT_THROW(other.backward([]() -> Var { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(one.w.dtype(), DType::f32);
  Var narrow(Tensor::zeros({1}, DType::bf16), true);
  SGD of_narrow({narrow});
  EXPECT_THROW(MixedPrecision(of_narrow, DType::bf16), ValueError);
}

INSTANTIATE_TEST_SUITE_P(Devices, AmpOnDevice, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

}  // namespace
}  // namespace ashlar::nn

// The recurrent ensemble on every device against a reference in double, and the forecaster that it learns to be.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "nn/hybrid/loss_ensemble.h"
#include "nn/hybrid/loss_forecaster.h"
#include "nn/hybrid/residuals.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/sgd.h"
#include "runtime/device/counters.h"
#include "runtime/graph/graph.h"
#include "runtime/memory/memory.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"
#include "tests/runtime/devices.h"

namespace ashlar::nn {
namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  return ashlar::max(ashlar::abs(ashlar::sub(a.to(Device::cpu()), b.to(Device::cpu())))).item();
}

/// (x - mean) / sqrt(variance + 1e-5)
std::vector<double> normalised(std::vector<double> x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double value : x) mean += value / n;
  for (const double value : x) variance += (value - mean) * (value - mean) / n;
  for (double& value : x) value = (value - mean) / std::sqrt(variance + 1e-5);
  return x;
}

/// What LossEnsemble's formulas say, in double. Paths [horizon, members, batch].
std::vector<double> reference(const LossEnsemble& ensemble, const Tensor& states, size_t horizon,
                              bool layer_norm = false) {
  std::map<std::string, std::vector<double>> p;
  for (const auto& [name, tensor] : ensemble.state_dict()) p[name] = tensor.to_doubles();
  const std::vector<double> x = states.to_doubles();
  const size_t batch = static_cast<size_t>(states.size(0)), features = static_cast<size_t>(states.size(1));
  const size_t encoded = p["encoder.bias"].size(), members = p["head_bias"].size();
  const size_t n = p["head_weight"].size() / members;
  std::vector<double> paths(horizon * members * batch);
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (size_t b = 0; b < batch; b++) {
    std::vector<double> e(encoded);
    for (size_t i = 0; i < encoded; i++) {
      double sum = p["encoder.bias"][i];
      for (size_t k = 0; k < features; k++) sum += x[b * features + k] * p["encoder.weight"][i * features + k];
      e[i] = std::max(sum, 0.0);
    }
    for (size_t m = 0; m < members; m++) {
      const double *weight = &p["weight_hh"][m * n * 3 * n], *bias_ih = &p["bias_ih"][m * 3 * n],
                   *bias_hh = &p["bias_hh"][m * 3 * n];
      std::vector<double> h(n);
      for (size_t i = 0; i < n; i++) {
        double sum = p["start.bias"][m * n + i];
        for (size_t k = 0; k < encoded; k++) sum += e[k] * p["start.weight"][(m * n + i) * encoded + k];
        h[i] = std::tanh(sum);
      }
      for (size_t t = 0; t < horizon; t++) {
        std::vector<double> a(bias_hh, bias_hh + 3 * n);
        for (size_t k = 0; k < n; k++) {
          for (size_t g = 0; g < 3 * n; g++) a[g] += h[k] * weight[k * 3 * n + g];
        }
        for (size_t i = 0; i < n; i++) {
          const double r = sigmoid(bias_ih[i] + a[i]), z = sigmoid(bias_ih[n + i] + a[n + i]);
          const double candidate = std::tanh(bias_ih[2 * n + i] + r * a[2 * n + i]);
          h[i] = (1 - z) * candidate + z * h[i];
        }
        const std::vector<double> seen = layer_norm ? normalised(h) : h;
        double sum = p["head_bias"][m];
        for (size_t i = 0; i < n; i++) sum += seen[i] * p["head_weight"][m * n + i];
        paths[(t * members + m) * batch + b] = sum;
      }
    }
  }
  return paths;
}

/// Heads, which are 0 at first, are filled.
void draw_heads(const LossEnsemble& ensemble, Random& random) {
  for (const auto& [name, parameter] : ensemble.named_parameters()) {
    if (name.starts_with("head")) parameter.value().copy_(affine(Tensor::randn(parameter.shape(), random), 0.1, 0));
  }
}

class LossEnsembles : public ::testing::TestWithParam<Device> {
 protected:
  const Device device_ = GetParam();
};

TEST_P(LossEnsembles, RollOutAsTheirFormulasSay) {
  constexpr int64_t kHorizon = 10;
  Random random(3);
  const LossEnsemble ensemble({.random = &random});  // of the sizes of the figures
  draw_heads(ensemble, random);
  const Tensor states = Tensor::randn({32, kStateFeatures}, random);
  const std::vector<double> wanted = reference(ensemble, states, kHorizon);
  ensemble.to(device_);
  const NoGrad no_grad;
  const Tensor x = states.to(device_), got = ensemble(Var(x), kHorizon).value();
  ASSERT_EQ(got.shape(), (Shape{kHorizon, 5, 32}));
  const std::vector<double> values = got.to_doubles();
  for (size_t i = 0; i < wanted.size(); i++) ASSERT_NEAR(values[i], wanted[i], 1e-5) << i;
  // One graph gives the same bits; a step is a launch, or all of them are one: on the CPU and where a GPU has clusters.
  Tensor replayed;
  const Graph graph = capture(device_, [&] { replayed = ensemble(Var(x), kHorizon).value(); });
  graph.replay();
  EXPECT_EQ(largest_difference(replayed, got), 0);
  const auto launches = [&](int64_t horizon) {
    const Counters before = counters(device_.kind);
    ensemble(Var(x), horizon);
    return (counters(device_.kind) - before).launches;
  };
  const auto more = launches(12) - launches(4);
  if (device_.kind == DeviceKind::opencl) {
    EXPECT_EQ(more, 8);
  } else {
    EXPECT_TRUE(more == 0 || (device_.kind == DeviceKind::cuda && more == 8)) << more;
  }
  // Weights in f16, states in f32: what the same weights give in f32, to the bit.
  const LossEnsemble narrow = ensemble.clone();
  narrow.to(DType::f16);
  const Tensor of_narrow = narrow(Var(x), kHorizon).value();
  EXPECT_EQ(of_narrow.dtype(), DType::f32);
  EXPECT_LT(largest_difference(of_narrow, got), 1e-3);
  EXPECT_GT(largest_difference(of_narrow, got), 0);
  narrow.to(DType::f32);
  EXPECT_EQ(largest_difference(narrow(Var(x), kHorizon).value(), of_narrow), 0);
}

// At the sizes of the figures: a residual's compression and its correction, and the state's path. The weights that are
// corrected, and the residual, are the training's own.
TEST_P(LossEnsembles, TheChainIsOneGraph) {
  const NoGrad no_grad;
  Random random(7);
  const Tensor residual = Tensor::randn({1000, 512}, random, DType::f32, device_);
  trim_memory(device_);
  const int64_t before = counters(device_.kind).pool_bytes;
  const LossEnsemble ensemble({.device = device_, .random = &random});
  const Tensor states = Tensor::randn({32, kStateFeatures}, random, DType::f32, device_);
  const Tensor state = philox_state(1, device_), share = Tensor::full({}, 0.5, DType::f32, device_);
  Tensor path, corrected;
  const auto chain = [&] {
    corrected = apply_correction(residual, compress_residual(state, residual, 32), share);
    path = ensemble(Var(states), 10).value();
  };
  trim_memory(device_);
  Graph graph = capture(device_, chain);
  graph.replay();
  const int64_t held = counters(device_.kind).pool_bytes - before;
  RecordProperty("held_bytes", std::to_string(held));
  if (device_.kind != DeviceKind::cpu) {  // which has a second copy of weights, spread for its caches
    EXPECT_LT(held, 13'000'000);
  }
  const Tensor replayed_path = path.clone(), replayed = corrected.clone();
  state.copy_(philox_state(1, device_));
  chain();
  EXPECT_EQ(largest_difference(path, replayed_path), 0);
  EXPECT_EQ(largest_difference(corrected, replayed), 0);
}

TEST_P(LossEnsembles, HaveGradientsOfAllParameters) {
  for (const bool layer_norm : {false, true}) {
    Random random(4);
    const LossEnsemble ensemble(
        {.features = 6, .encoded = 8, .members = 3, .hidden = 16, .layer_norm = layer_norm, .random = &random});
    draw_heads(ensemble, random);
    const Tensor states = Tensor::randn({4, 6}, random), slopes = Tensor::randn({5, 3, 4}, random);
    ensemble.to(device_);
    const std::vector<Var> parameters = ensemble.parameters();
    const Var paths = ensemble(Var(states.to(device_)), 5);
    const std::vector<double> wanted = reference(ensemble, states, 5, layer_norm), values = paths.value().to_doubles();
    for (size_t i = 0; i < wanted.size(); i++) ASSERT_NEAR(values[i], wanted[i], layer_norm ? 1e-4 : 1e-5) << i;
    const Var loss = ad::sum(ad::mul(paths, Var(slopes.to(device_))));
    const std::vector<Var> gradients = grad({loss}, parameters);
    const auto value = [&] {
      const std::vector<double> all = reference(ensemble, states, 5, layer_norm), weights = slopes.to_doubles();
      double sum = 0;
      for (size_t i = 0; i < all.size(); i++) sum += all[i] * weights[i];
      return sum;
    };
    for (size_t p = 0; p < parameters.size(); p++) {
      // Along a random direction, by central differences of the reference in double.
      const Tensor there = Tensor::randn(parameters[p].shape(), random), before = parameters[p].value().clone();
      const double length = layer_norm ? 2e-4 : 1e-3;  // normalised units are less straight
      const auto moved = [&](double step) {
        parameters[p].value().copy_(ashlar::add(before, affine(there.to(device_), step, 0)));
        return value();
      };
      const double slope = (moved(length) - moved(-length)) / (2 * length);
      parameters[p].value().copy_(before);
      const double got = ashlar::sum(ashlar::mul(gradients[p].value(), there.to(device_))).item();
      EXPECT_NEAR(got, slope, 5e-3 * (1 + std::abs(slope))) << p << (layer_norm ? ", normalised" : "");
    }
  }
}

TEST_P(LossEnsembles, DropoutAndNormAreOffUnlessAskedFor) {
  Random random(4);
  LossEnsemble ensemble({.features = 6, .encoded = 8, .members = 3, .hidden = 16, .random = &random});
  Random again(4);
  const LossEnsemble with(
      {.features = 6, .encoded = 8, .members = 3, .hidden = 16, .dropout = 0.5, .layer_norm = true, .random = &again});
  ASSERT_EQ(with.state_dict().size(), ensemble.state_dict().size());
  for (size_t i = 0; i < ensemble.state_dict().size(); i++) {  // first values are the same
    EXPECT_EQ(with.state_dict()[i].second.to_doubles(), ensemble.state_dict()[i].second.to_doubles());
  }
  EXPECT_EQ(ensemble.state_dict(Saved::with_checkpoints).size(), ensemble.state_dict().size());
  EXPECT_EQ(with.state_dict(Saved::with_checkpoints).size(), ensemble.state_dict().size() + 1);
  draw_heads(ensemble, random);
  ensemble.to(device_);
  const NoGrad no_grad;
  const Var states(Tensor::randn({4, 6}, random).to(device_));
  std::map<std::string, Var> p;
  for (const auto& [name, parameter] : ensemble.named_parameters()) p[name] = parameter;
  const Var encoded = encode_state(states, p["encoder.weight"], p["encoder.bias"]);
  const Var start = ad::matmul(encoded, p["start.weight"], {.transpose_b = true}, p["start.bias"]);
  const Var first = ad::tanh(start).reshape({4, 3, 16}).permute({1, 0, 2});
  const Tensor wanted =
      path_of(roll_out(first, p["weight_hh"], p["bias_ih"], p["bias_hh"], 5), p["head_weight"], p["head_bias"]).value();
  for (const bool training : {true, false}) {
    ensemble.train(training);
    EXPECT_EQ(largest_difference(ensemble(states, 5).value(), wanted), 0);
  }
}

TEST_P(LossEnsembles, DropoutIsOfTrainingAlone) {
  for (const bool layer_norm : {false, true}) {
    Random random(4);
    const LossEnsembleOptions options{
        .features = 6, .encoded = 8, .members = 3, .hidden = 16, .layer_norm = layer_norm, .random = &random};
    LossEnsembleOptions dropping = options;
    dropping.dropout = 0.4;
    const LossEnsemble whole(options);
    draw_heads(whole, random);
    LossEnsemble ensemble(dropping);
    ensemble.load_state_dict(whole.state_dict());
    whole.to(device_);
    ensemble.to(device_);
    const Var states(Tensor::randn({4, 6}, random).to(device_));
    const Tensor once = ensemble(states, 5).value(), twice = ensemble(states, 5).value();
    EXPECT_GT(largest_difference(once, twice), 0);
    // A head sees the units in the mean: of many draws the path is that without.
    const Tensor wanted = whole(states, 5).value();
    Tensor sum = Tensor::zeros_like(wanted);
    constexpr int kDraws = 400;
    for (int i = 0; i < kDraws; i++) sum = ashlar::add(sum, ensemble(states, 5).value());
    EXPECT_LT(largest_difference(affine(sum, 1.0 / kDraws, 0), wanted), 0.3 * largest_difference(once, wanted) + 1e-6);
    // Its slopes reach every parameter.
    for (const Var& slope : grad({ad::sum(ensemble(states, 5))}, ensemble.parameters())) {
      const double length = ashlar::sum(ashlar::mul(slope.value(), slope.value())).item();
      EXPECT_TRUE(length > 0 && std::isfinite(length)) << slope.shape().str();
    }
    ensemble.eval();
    EXPECT_EQ(largest_difference(ensemble(states, 5).value(), wanted), 0);
    EXPECT_EQ(largest_difference(ensemble(states, 5).value(), wanted), 0);
  }
}

TEST_P(LossEnsembles, ResidualsAreCompressedAndApplied) {
  Random random(5);
  const Tensor left = Tensor::randn({100, 6}, random), right = Tensor::randn({70, 6}, random);
  const Tensor residual = ashlar::matmul(left, right, {.transpose_b = true}).to(device_);
  const LowRank found = compress_residual(philox_state(1, device_), residual, 6);
  EXPECT_EQ(found.left.shape(), (Shape{100, 6}));
  EXPECT_EQ(found.right.shape(), (Shape{70, 6}));
  const Tensor weights = Tensor::randn({100, 70}, random).to(device_), share = Tensor::full({}, 0.25).to(device_);
  const Tensor wanted = ashlar::add(weights, affine(residual, 0.25, 0));
  EXPECT_LT(largest_difference(apply_correction(weights, found, share), wanted), 1e-5);
  // Less than all of it: what is left is no longer than what the best would leave, by much.
  const LowRank part = compress_residual(philox_state(1, device_), residual, 3);
  const Tensor rest = ashlar::sub(residual, apply_correction(Tensor::zeros_like(residual), part, share * 4.0));
  double best = 0;
  const std::vector<double> values = svd(residual).s.to_doubles();
  for (size_t i = 3; i < values.size(); i++) best += values[i] * values[i];
  EXPECT_LT(ashlar::sum(ashlar::mul(rest, rest)).item(), 1.05 * best);
  EXPECT_NEAR(part.values.to_doubles()[0], values[0], 1e-3 * values[0]);
}

INSTANTIATE_TEST_SUITE_P(Devices, LossEnsembles, ::testing::ValuesIn(testing::kernel_devices()),
                         [](const auto& info) { return std::string(name_of(info.param.kind)); });

TEST(LossEnsemble, RefusesSizesThatCantBe) {
  EXPECT_THROW(LossEnsemble({.members = 0}), ValueError);
  EXPECT_THROW(LossEnsemble({.hidden = -1}), ValueError);
  EXPECT_THROW(LossEnsemble({.dropout = 1}), ValueError);
  EXPECT_THROW(LossEnsemble({.dropout = -0.1}), ValueError);
}

// ---- the forecaster

LossForecastOptions small_forecast() {
  LossForecastOptions options;
  options.hidden = 12;
  options.encoded = 16;
  options.horizon = 5;
  options.every = 8;
  options.batch = 16;
  options.held_out = 48;
  options.learning_rate = 3e-3;
  return options;
}

LossForecastOptions with_dropout_and_norm() {
  LossForecastOptions options = small_forecast();
  options.dropout = 0.3;
  options.layer_norm = true;
  return options;
}

/// A training of which nothing is real but its losses.
struct Pretence {
  Pretence(const LossForecastOptions& options, std::function<double(int64_t)> loss, Device on = {},
           std::optional<bool> replay = {})
      : device(on),
        model(2, 2, {.device = on, .random = &random}),
        optimizer(model.parameters(), {}),
        forecaster(options, optimizer, on, replay),
        loss_at(std::move(loss)) {
    for (const Var& parameter : model.parameters()) parameter.set_grad(Tensor::ones_like(parameter.value()));
  }
  void train(int64_t steps) {
    for (int64_t i = 0; i < steps; i++) {
      forecaster.measure(Tensor::full({}, loss_at(position++), DType::f32, device));
      forecaster.keep();
      if (forecaster.is_due()) forecaster.learn(place());
    }
  }
  TrainingPlace place() const {
    return {.phase = Phase::full, .steps_in_phase = position, .position = position, .steps = 4000};
  }

  Device device;
  Random random{1};
  Linear model;
  SGD optimizer;
  LossForecaster forecaster;
  std::function<double(int64_t)> loss_at;
  int64_t position = 0;
};

/// Falls slowly, with noise that is the same in every run, and waves of 160 steps.
double wavy(int64_t step) {
  const auto t = static_cast<double>(step);
  const auto words = Random::philox({static_cast<uint32_t>(step), 0, 0, 0}, 9);
  double noise = -6;
  for (const uint32_t word : words) {
    for (const int shift : {0, 11, 21}) noise += static_cast<double>(word >> shift & 1023) / 1023;
  }
  return 2 * std::exp(-t / 3000) + 0.3 * std::sin(t / 25) + 0.1 * noise;
}

TEST(LossForecaster, LearnsWhatCanBeForetoldAndKnowsHowWell) {
  Pretence training(small_forecast(), wavy);
  training.train(600);
  const LossForecastReport early = training.forecaster.report();
  training.train(3400);
  const LossForecastReport report = training.forecaster.report();
  EXPECT_GT(report.forecasts, 900);
  EXPECT_GT(report.updates, 400);
  EXPECT_GT(report.gain(), 0.4) << report.str();
  EXPECT_GT(report.gain(), early.gain());
  EXPECT_GT(report.coverage, 0.8) << report.str();
  EXPECT_LT(report.coverage, 0.99) << report.str();
  EXPECT_NEAR(report.confidence, report.came_true, 0.1) << report.str();
  // Confidence follows the waves: the loss is about to fall, and about to rise.
  const auto confidence_in = [&](int64_t until) {
    training.train(until - training.position);
    training.forecaster.learn(training.place());
    const LossForecast now = training.forecaster.forecast(training.place());
    EXPECT_TRUE(now.is_used);
    EXPECT_EQ(now.path.size(), 5U);
    return now.confidence;
  };
  const double round = 2 * 3.14159265 * 25, wave = std::ceil(4000 / round) * round;
  const double falling = confidence_in(static_cast<int64_t>(wave + 0.35 * round)),
               rising = confidence_in(static_cast<int64_t>(wave + 0.85 * round));
  EXPECT_GT(falling, rising + 0.4);
}

TEST(LossForecaster, NothingIsMadeOfForecastsThatArentBetterThanTheLastValue) {
  LossForecastOptions options = small_forecast();
  Pretence training(options, wavy);
  training.train(40);
  EXPECT_FALSE(training.forecaster.forecast(training.place()).is_used) << "too few were judged";
  options.gain = 0.95;
  Pretence strict(options, wavy);
  strict.train(1000);
  const LossForecast forecast = strict.forecaster.forecast(strict.place());
  EXPECT_FALSE(forecast.is_used);
  EXPECT_EQ(forecast.confidence, 0);
  EXPECT_GT(forecast.deviation, 0);
}

TEST(LossForecaster, GoesOnWithTheSameBits) {
  const auto numbers = [](const LossForecaster& forecaster) {
    std::vector<std::vector<double>> all;
    for (const auto& [name, tensor] : forecaster.state_dict()) all.push_back(tensor.to_doubles());
    return all;
  };
  for (const LossForecastOptions& options : {small_forecast(), with_dropout_and_norm()}) {
    Pretence whole(options, wavy), again(options, wavy);
    whole.train(501);
    again.train(501);
    EXPECT_EQ(numbers(whole.forecaster), numbers(again.forecaster));
    Pretence later(options, wavy);
    later.forecaster.load_state_dict(whole.forecaster.state_dict());
    later.position = whole.position;
    whole.train(300);
    later.train(300);
    EXPECT_EQ(numbers(whole.forecaster), numbers(later.forecaster));
  }
}

TEST(LossForecaster, DropoutIsOnInItsLearningAndOffInItsForecasts) {
  const LossForecastOptions options = with_dropout_and_norm();
  LossForecastOptions without = options;
  without.dropout = 0;
  Pretence training(options, wavy), whole(without, wavy);
  for (Pretence* one : {&training, &whole}) {
    one->train(400);
    one->forecaster.learn(one->place());
  }
  EXPECT_GT(training.forecaster.report().updates, 20);
  const LossForecast once = training.forecaster.forecast(training.place());
  EXPECT_EQ(training.forecaster.forecast(training.place()).path, once.path);
  const TrainingState state = training.forecaster.state(training.place());
  const Var states(Tensor::from(std::span<const float>(state), {1, kStateFeatures}));
  LossEnsemble ensemble = training.forecaster.ensemble().clone();
  const NoGrad no_grad;
  ensemble.eval();
  EXPECT_NEAR(ashlar::mean(ensemble(states, options.horizon).value()).item(), once.change, 1e-5);
  ensemble.train();
  EXPECT_GT(std::abs(ashlar::mean(ensemble(states, options.horizon).value()).item() - once.change), 1e-5);
  // It began as the one without, and learnt by other steps.
  EXPECT_NE(whole.forecaster.forecast(whole.place()).path, once.path);
}

TEST(LossForecaster, LearnsTheSameOnEveryDeviceCalledAndReplayed) {
  const auto path_on = [](Device device, bool replay, const LossForecastOptions& options = small_forecast()) {
    Pretence training(options, wavy, device, replay);
    training.train(320);
    training.forecaster.learn(training.place());
    EXPECT_GT(training.forecaster.report().updates, 20);
    return training.forecaster.forecast(training.place()).path;
  };
  const std::vector<double> wanted = path_on(Device::cpu(), false);
  for (const Device& device : testing::kernel_devices()) {
    const std::vector<double> called = path_on(device, false);
    EXPECT_EQ(path_on(device, true), called) << device.str();
    EXPECT_EQ(path_on(device, true, with_dropout_and_norm()), path_on(device, false, with_dropout_and_norm()))
        << device.str();
    ASSERT_EQ(called.size(), wanted.size());
    for (size_t t = 0; t < wanted.size(); t++) EXPECT_NEAR(called[t], wanted[t], 1e-3) << device.str();
  }
}

TEST(LossForecaster, JumpsEndPathsAndReturnsTakeThemBack) {
  Pretence training(small_forecast(), wavy);
  training.train(400);
  const auto judged = [&] { return training.forecaster.report().forecasts; };
  const int64_t before = judged();
  training.forecaster.jump();
  training.train(16 + 20);  // a state has 16 losses of its own side, and a path 20
  training.forecaster.learn(training.place());
  EXPECT_EQ(judged(), before + 1);
  training.train(40);
  training.forecaster.go_back();
  EXPECT_TRUE(training.forecaster.forecast(training.place()).path.empty());
  training.train(200);
  training.forecaster.learn(training.place());
  EXPECT_GT(judged(), before + 30);
}

TEST(LossForecaster, RefusesWhatCantBe) {
  Random random(1);
  const Linear model(2, 2, random);
  const SGD optimizer(model.parameters(), {});
  const auto refuses = [&](auto change) {
    LossForecastOptions options;
    change(options);
    EXPECT_THROW(options.validate(), ValueError);
    EXPECT_THROW(LossForecaster(options, optimizer, Device::cpu(), {}), ValueError);
  };
  refuses([](auto& o) { o.members = 1; });
  refuses([](auto& o) { o.hidden = 0; });
  refuses([](auto& o) { o.every = 6; });
  refuses([](auto& o) { o.held_out = 3; });
  refuses([](auto& o) { o.memory = 8; });
  refuses([](auto& o) { o.horizon = 200; });
  refuses([](auto& o) { o.learning_rate = 0; });
  refuses([](auto& o) { o.dropout = 1; });
  refuses([](auto& o) { o.dropout = -0.1; });
  refuses([](auto& o) { o.gain = 1; });
  refuses([](auto& o) { o.rise = -1; });
  LossForecaster small(small_forecast(), optimizer, Device::cpu(), {});
  EXPECT_THROW(small.load_state_dict({}), ValueError);
  LossForecastOptions other = small_forecast();
  other.horizon = 6;
  EXPECT_THROW(small.load_state_dict(LossForecaster(other, optimizer, Device::cpu(), {}).state_dict()), ValueError);
  LossForecaster dropping(with_dropout_and_norm(), optimizer, Device::cpu(), {});
  EXPECT_THROW(small.load_state_dict(dropping.state_dict()), ValueError);
  EXPECT_THROW(dropping.load_state_dict(small.state_dict()), ValueError);
}

// ---- residuals of whole networks

TEST(ResidualStore, CorrectsForecastsFromSimilarStates) {
  Random random(6);
  const Sequential model(Linear(20, 16, random), Linear(16, 3, random));
  SGD optimizer(model.parameters(), {});
  const auto values = [&] { return optimizer.arena_values()[0]; };
  ResidualStore store(optimizer, 2, 4, 1);
  TrainingState here{}, there{};
  there.fill(2);
  EXPECT_EQ(store.apply(here, 1), 0);
  // Each forecast was off by a matrix of rank one, and a vector.
  const Tensor truth = values().clone();
  const auto off_by = [&](float size) {
    values().copy_(truth);
    const Tensor foretold = truth.clone();
    const std::vector<const ParameterArena*> arenas = optimizer.parameter_arenas();
    for (size_t i = 0; i < arenas[0]->parameters().size(); i++) {
      const Tensor part = arenas[0]->part(foretold, i);
      part.copy_(ashlar::sub(part, size));
    }
    return std::vector{foretold};
  };
  store.put(here, off_by(1));
  store.put(there, off_by(10));
  EXPECT_EQ(store.size(), 2);
  const auto move_by = [&](const TrainingState& key) {
    values().copy_(truth);
    EXPECT_NEAR(store.apply(key, 0.5), 1, 1e-6);
    double least = 1e9, most = 0;
    for (size_t i = 0; i < 4; i++) {
      const Tensor now = optimizer.parameter_arenas()[0]->parameters()[i].value();
      const Tensor moved = ashlar::sub(now, optimizer.parameter_arenas()[0]->part(truth, i));
      least = std::min(least, ashlar::min(moved).item());
      most = std::max(most, ashlar::max(moved).item());
    }
    EXPECT_NEAR(least, most, 1e-4);
    return least;
  };
  EXPECT_NEAR(move_by(here), 0.5, 1e-4);
  EXPECT_NEAR(move_by(there), 5, 1e-4);
  TrainingState between = here;
  between.fill(0.5);
  values().copy_(truth);
  EXPECT_NEAR(store.apply(between, 1), std::exp(-0.25), 1e-6);
  ResidualStore twin(optimizer, 2, 4, 7);
  twin.load_state_dict(store.state_dict());
  const std::vector<double> after = (values().copy_(truth), store.apply(there, 0.3), values().to_doubles());
  values().copy_(truth);
  twin.apply(there, 0.3);
  EXPECT_EQ(values().to_doubles(), after);
  store.put(here, off_by(3));  // the first is forgotten
  EXPECT_EQ(store.size(), 2);
  EXPECT_NEAR(move_by(here), 1.5, 1e-4);
  EXPECT_THROW(ResidualStore(optimizer, 0, 4, 1), ValueError);
  EXPECT_THROW(ResidualStore(optimizer, 2, 5, 1).load_state_dict(store.state_dict()), ShapeError);
}

}  // namespace
}  // namespace ashlar::nn

// Batches drawn by forecasts of the samples' losses: how often which, label noise, the uniform end, replays, and
// trainings that go on to the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "ashlar/ashlar.h"
#include "nn/data/sample_forecast.h"
#include "nn/hybrid/hybrid_trainer.h"
#include "nn/modules/activations.h"
#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "runtime/graph/graph.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

/// Samples whose losses are known: those of `losses`, whatever is done.
class Known {
 public:
  Known(std::vector<float> losses, SampleForecastOptions options)
      : losses_(std::move(losses)),
        of_device_(Tensor::from(losses_, {size()}, options.device)),
        data_({Tensor::arange(size())}, options) {
    data_.start(0);
  }
  int64_t size() const { return static_cast<int64_t>(losses_.size()); }
  SampleForecast& data() { return data_; }

  std::vector<int64_t> step() {
    const std::vector<Tensor> batch = data_.draw();
    data_.observe(index_select(of_device_, data_.rows()));
    return batch[0].to_vector<int64_t>();
  }
  void visit_all() {
    for (int i = 0; i < 10000; i++) {
      const auto forecasts = data_.forecasts().to_vector<float>();
      if (std::ranges::none_of(forecasts, [](float x) { return std::isinf(x); })) return;
      step();
    }
    FAIL() << "some sample is never drawn";
  }
  /// How often each sample comes in so many steps.
  std::vector<double> counts(int steps) {
    std::vector<double> result(losses_.size());
    for (int i = 0; i < steps; i++) {
      for (const int64_t row : step()) result[static_cast<size_t>(row)]++;
    }
    return result;
  }

 private:
  std::vector<float> losses_;
  Tensor of_device_;
  SampleForecast data_;
};

double share(const std::vector<double>& counts, size_t first, size_t end) {
  double part = 0, all = 0;
  for (size_t i = 0; i < counts.size(); i++) {
    all += counts[i];
    part += i >= first && i < end ? counts[i] : 0;
  }
  return part / all;
}

class DrawnByForecast : public testing::OnDevice {
 protected:
  SampleForecastOptions endless(int64_t batch) const {
    return {.batch = batch, .steps = 1'000'000, .seed = 3, .device = device(), .patience = 0};
  }
};

TEST_P(DrawnByForecast, AsOftenAsTheFormulaSays) {
  // Twenty losses, a factor of 2 apart, of 25 samples each: their ranks are the middles of twentieths.
  constexpr int64_t kSamples = 500, kBatch = 50, kSteps = 600;
  std::vector<float> losses;
  for (int64_t i = 0; i < kSamples; i++) losses.push_back(std::ldexp(1.0F, static_cast<int>(i * 7 % 20) - 12));
  for (const double sharpness : {2.0, 0.5}) {
    SampleForecastOptions options = endless(kBatch);
    options.sharpness = sharpness;
    Known known(losses, options);
    known.visit_all();
    ASSERT_EQ(known.data().forecasts().to_vector<float>(), losses);
    const std::vector<double> counts = known.counts(kSteps);
    std::vector<double> expected;
    double sum = 0;
    for (int64_t i = 0; i < kSamples; i++) {
      const double rank = (static_cast<double>(i * 7 % 20) + 0.5) / 20;
      expected.push_back(std::pow(rank, sharpness) + 0.1);
      sum += expected.back();
    }
    double distance = 0, to_uniform = 0;
    for (size_t i = 0; i < counts.size(); i++) {
      const double of_formula = expected[i] / sum * kBatch * kSteps, uniform = kBatch * kSteps / double{kSamples};
      distance += (counts[i] - of_formula) * (counts[i] - of_formula) / of_formula;
      to_uniform += (counts[i] - uniform) * (counts[i] - uniform) / uniform;
    }
    // χ² of 499 degrees of freedom, less what one draw from each part of the probabilities takes from its mean (a
    // tenth) and spread: within five deviations.
    const double mean = 0.9 * (kSamples - 1), deviation = std::sqrt(2.0 * (kSamples - 1));
    EXPECT_NEAR(distance, mean, 5 * deviation) << sharpness;
    EXPECT_GT(to_uniform, 3 * mean);
  }
}

TEST_P(DrawnByForecast, UniformWithoutSharpness) {
  std::vector<float> losses;
  for (int i = 0; i < 300; i++) losses.push_back(0.01F * static_cast<float>(i));
  SampleForecastOptions options = endless(30);
  options.sharpness = 0;
  options.floor = 0;
  const std::vector<double> counts = Known(losses, options).counts(1000);
  double distance = 0;
  for (const double count : counts) distance += (count - 100) * (count - 100) / 100;
  EXPECT_NEAR(distance, 0.9 * 299, 5 * std::sqrt(2 * 299.0));
}

TEST_P(DrawnByForecast, WhatStaysHardIsCapped) {
  // The last tenth has wrong labels: the largest losses, whatever is done.
  std::vector<float> losses;
  for (int i = 0; i < 200; i++) losses.push_back(i < 180 ? 0.001F * static_cast<float>(i + 1) : 10);
  SampleForecastOptions options = endless(20);
  Known without(losses, options);
  options.patience = 4;
  Known capped(losses, options);
  const auto share_of_wrong = [](Known& known) {
    known.counts(400);  // until their streaks are long enough
    return share(known.counts(800), 180, 200);
  };
  // Σ over ranks of rank² + 0.1: the easy ones have (0.9³ / 3 + 0.09) · 200, the wrong ones 20 (0.95² + 0.1) or, as if
  // at rank ½, 20 (0.25 + 0.1).
  const double easy = (0.9 * 0.9 * 0.9 / 3 + 0.09) * 200, hard = 20 * (0.95 * 0.95 + 0.1), limited = 20 * 0.35;
  EXPECT_NEAR(share_of_wrong(without), hard / (hard + easy), 0.01);
  // Others of the hardest fifth are always hard here, too: half as many, of ranks 0.8 to 0.9.
  const double also = 20 * ((std::pow(0.9, 3) - std::pow(0.8, 3)) / 0.3 + 0.1);
  EXPECT_NEAR(share_of_wrong(capped), limited / (easy - also + 2 * limited), 0.01);
  const auto streaks = capped.data().streaks().to_vector<int32_t>();
  for (size_t i = 0; i < streaks.size(); i++) {
    // Those between are near the edge of the hardest fifth.
    EXPECT_TRUE(i >= 180 ? streaks[i] >= 4 : i >= 155 || streaks[i] < 4) << i << ": " << streaks[i];
  }
  // One visit that finds them easy ends it.
  for (int i = 0; i < 100; i++) {
    capped.data().draw();
    capped.data().observe(Tensor::full({20}, 1e-4, DType::f32, device()));
  }
  EXPECT_LT(std::ranges::max(capped.data().streaks().to_vector<int32_t>()), 4);
}

TEST_P(DrawnByForecast, TheEndIsUniform) {
  std::vector<float> losses;
  for (int i = 0; i < 100; i++) losses.push_back(static_cast<float>(i));
  SampleForecastOptions options = endless(10);
  options.steps = 40;
  options.uniform_end = 0.5;
  Known known(losses, options);
  std::set<std::vector<int64_t>> orders;
  for (uint64_t epoch = 0; epoch < 4; epoch++) {
    known.data().start(epoch);
    std::vector<int64_t> rows;
    while (known.data().next()) {
      const std::vector<int64_t> batch = known.step();
      rows.insert(rows.end(), batch.begin(), batch.end());
    }
    ASSERT_EQ(rows.size(), 100U);
    const std::set<int64_t> different(rows.begin(), rows.end());
    if (epoch < 2) {
      EXPECT_LT(different.size(), 90U) << epoch;
    } else {
      EXPECT_EQ(different.size(), 100U) << epoch;
    }
    orders.insert(rows);
  }
  EXPECT_EQ(orders.size(), 4U);
}

TEST_P(DrawnByForecast, HeldOutLossesThatRiseMakeItUniform) {
  const auto different_after = [&](const std::vector<double>& validations, int64_t rising) {
    std::vector<float> losses(100);
    for (size_t i = 0; i < losses.size(); i++) losses[i] = static_cast<float>(i);
    SampleForecastOptions options = endless(10);
    options.rising = rising;
    Known known(losses, options);
    known.visit_all();
    for (const double validation : validations) known.data().watch(validation);
    known.data().start(1);
    std::set<int64_t> rows;
    while (known.data().next()) {
      for (const int64_t row : known.step()) rows.insert(row);
    }
    return rows.size();
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(different_after({1, 1.1, 1.2}, 2), 100U);
  EXPECT_EQ(different_after({1, 1, kNan, 0.5}, 2), 100U) << "for good";
  EXPECT_LT(different_after({1, 1.1, 0.9, 1}, 2), 90U);
  EXPECT_LT(different_after({1, 1.1, 1.2}, 0), 90U);
}

TEST_P(DrawnByForecast, ForecastsFollowTheRule) {
  SampleForecastOptions options = endless(8);
  options.trend = 0.5;
  options.age = 1;
  SampleForecast data({Tensor::arange(8)}, options);
  data.start(0);
  std::vector<double> expected(8, std::numeric_limits<double>::infinity());
  double sum = 0, weight = 0;
  for (int step = 0; step < 12; step++) {
    data.draw();
    const auto rows = data.rows().to_vector<int64_t>();
    std::vector<float> losses;
    double mean = 0;
    for (size_t j = 0; j < 8; j++) {
      losses.push_back(static_cast<float>(1.0 / (step + 1) + 0.1 * static_cast<double>(j)));
      mean += losses[j] / 8;
    }
    data.observe(Tensor::from(losses, {8}, device()));
    sum = 0.98 * sum + 0.02 * mean;
    weight = 0.98 * weight + 0.02;
    const std::vector<double> before = expected;
    for (size_t j = 0; j < 8; j++) {
      const auto i = static_cast<size_t>(rows[j]);
      const double scaled = losses[j] / (sum / weight);
      expected[i] = std::isinf(before[i]) ? scaled : std::max(0.0, scaled + 0.5 * (scaled - before[i]));
    }
    const auto got = data.forecasts().to_vector<float>();
    for (size_t i = 0; i < 8; i++) {
      if (std::isinf(expected[i])) {
        EXPECT_TRUE(std::isinf(got[i]));
      } else {
        EXPECT_NEAR(got[i], expected[i], 1e-4) << step << ", " << i;
      }
    }
  }
}

TEST_P(DrawnByForecast, ReplaysGiveTheSameBatches) {
  const auto rows_of = [&](bool replays) {
    SampleForecastOptions options = endless(6);
    options.patience = 2;
    options.steps = 30;
    SampleForecast data({Tensor::arange(40, DType::f32)}, options);
    Tensor losses = Tensor::zeros({6}, DType::f32, device());
    const auto step = [&] {
      // Losses that change from visit to visit.
      losses.copy_(affine(losses, 0.5, 0.0) + data.draw()[0]);
      data.observe(losses);
    };
    Graph graph;
    std::vector<std::vector<int64_t>> all;
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
      data.start(epoch);
      while (data.next()) {
        if (replays && !graph.defined()) graph = capture(device(), step);
        replays ? graph.replay() : step();
        all.push_back(data.rows().to_vector<int64_t>());
      }
    }
    return std::pair(all, data.forecasts().to_vector<float>());
  };
  EXPECT_EQ(rows_of(true), rows_of(false));
}

TEST_P(DrawnByForecast, TheSameOnEveryDevice) {
  std::vector<float> losses;
  for (int i = 0; i < 500; i++) losses.push_back(static_cast<float>(i * 37 % 500) / 16);
  SampleForecastOptions options = endless(16);
  Known here(losses, options);
  options.device = Device::cpu();
  Known host(losses, options);
  for (int i = 0; i < 60; i++) ASSERT_EQ(here.step(), host.step()) << i;
}

INSTANTIATE_TEST_SUITE_P(Devices, DrawnByForecast, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

TEST(SampleForecastState, ChecksWhatItIsGiven) {
  const std::vector<Tensor> tensors{Tensor::arange(20)};
  const auto with = [&](auto change) {
    return [&tensors, change] {
      SampleForecastOptions options{.batch = 4, .steps = 10};
      change(options);
      SampleForecast data(tensors, options);
    };
  };
  using Options = SampleForecastOptions;
  testing::expect_error<ValueError>(with([](Options& o) { o.steps = 0; }), {"steps = 0"});
  testing::expect_error<ValueError>(with([](Options& o) { o.sharpness = -1; }), {"sharpness"});
  testing::expect_error<ValueError>(with([](Options& o) { o.floor = 0; }), {"floor", "above 0"});
  testing::expect_error<ValueError>(with([](Options& o) { o.uniform_end = 1.5; }), {"uniform_end"});
  testing::expect_error<ValueError>(with([](Options& o) { o.trend = -1; }), {"trend"});
  testing::expect_error<ValueError>(with([](Options& o) { o.cap = 2; }), {"cap"});
  testing::expect_error<ValueError>(with([](Options& o) { o.bins = 70000; }), {"bins"});
  testing::expect_error<ValueError>(with([](Options& o) { o.batch = 21; }), {"a batch of 21"});
  SampleForecast data(tensors, {.batch = 4, .steps = 10});
  EXPECT_FALSE(data.next()) << "before start()";
  data.draw();
  testing::expect_error<ShapeError>([&] { data.observe(Tensor::zeros({})); }, {"4 of them", "Reduction::none"});
  SampleForecast other({Tensor::arange(21)}, {.batch = 4, .steps = 10});
  testing::expect_error<ShapeError>([&] { other.load_state_dict(data.state_dict()); }, {"forecasts"});
  SampleForecast sharper(tensors, {.batch = 4, .steps = 10, .sharpness = 3});
  testing::expect_error<ValueError>([&] { sharper.load_state_dict(data.state_dict()); }, {"sharpness"});
  NamedTensors state = data.state_dict();
  state.pop_back();
  testing::expect_error<ValueError>([&] { data.load_state_dict(state); }, {"no tensor"});
}

// ---- trainings

struct Interrupt {};

struct Trained {
  std::vector<FitEpoch> epochs;
  NamedTensors state;
};

SampleForecastOptions of_training() {
  return {.batch = 8, .steps = 90, .seed = 5, .age = 1, .trend = 0.25, .patience = 3};
}

/// Three epochs of 30 batches; an exception at call number `stop` of the loss in training.
template <class Train>
Trained train_with(int stop, Train run, const SampleForecastOptions& samples = of_training()) {
  Random random(7);
  Sequential model(Linear(4, 32, random), ReLU(), Dropout(0.1, {.random = &random}), Linear(32, 2, random));
  Adam optimizer(model.parameters(), {.learning_rate = 0.01});
  Scheduler scheduler(optimizer, warm_up_stable_decay(90, 10, 60));
  Random points(3);
  const Tensor x = Tensor::randn({240, 4}, points);
  const Tensor y = x.slice(1, 0, 2) * x.slice(1, 2, 4);
  SampleForecast data({x, y}, samples);
  const TensorDataset held_out({x, y});
  DataLoader validation(held_out, {.batch = 50});
  const auto loss = [&](const std::vector<Tensor>& batch) {
    if (model.training() && --stop == 0) throw Interrupt();
    const Var error = ad::sub(model(batch[0]).to(DType::f32), batch[1]);
    return ad::mean(ad::mul(error, error), Shape{1});
  };
  Trained trained;
  trained.epochs = run(Training{.model = model,
                                .optimizer = optimizer,
                                .data = data,
                                .loss = loss,
                                .scheduler = &scheduler,
                                .validation = &validation});
  trained.state = model.state_dict(Saved::with_checkpoints);
  for (const NamedTensors& more : {optimizer.state_dict(), data.state_dict()}) {
    for (const auto& [name, tensor] : more) trained.state.emplace_back(name, tensor.clone());
  }
  return trained;
}

Trained fitted(const FitOptions& options, int stop = -1) {
  return train_with(stop, [&](const Training& training) { return fit(training, options); });
}

Trained foretold(const HybridOptions& options, int stop = -1) {
  return train_with(stop, [&](const Training& training) { return HybridTrainer(training, options).train().epochs; });
}

void expect_same(const Trained& got, const Trained& wanted, const std::string& when) {
  ASSERT_EQ(got.state.size(), wanted.state.size());
  for (size_t i = 0; i < wanted.state.size(); i++) {
    EXPECT_EQ(got.state[i].second.to_doubles(), wanted.state[i].second.to_doubles())
        << wanted.state[i].first << " " << when;
  }
  ASSERT_EQ(got.epochs.size(), wanted.epochs.size()) << when;
  for (size_t i = 0; i < wanted.epochs.size(); i++) {
    EXPECT_EQ(got.epochs[i].loss, wanted.epochs[i].loss) << when;
    EXPECT_EQ(got.epochs[i].validation, wanted.epochs[i].validation) << when;
  }
}

TEST(SampleForecastTraining, FitResumesToTheSameBits) {
  const Trained wanted = fitted({.epochs = 3});
  EXPECT_LT(wanted.epochs.back().validation, wanted.epochs.front().validation);
  EXPECT_GT(wanted.epochs.back().samples_per_second, 0);
  for (const int stop : {1, 4, 5, 18, 30, 31, 60, 78, 90}) {
    const testing::TemporaryFolder folder;
    FitOptions options{.epochs = 3, .checkpoint = folder / "checkpoint.safetensors", .checkpoint_every = 4};
    EXPECT_THROW(fitted(options, stop), Interrupt);
    options.replay = true;
    expect_same(fitted(options), wanted, "after " + std::to_string(stop));
  }
}

TEST(SampleForecastTraining, WithAnEnsembleItResumesToTheSameBitsToo) {
  SampleForecastOptions samples = of_training();
  samples.age = samples.trend = 0;
  samples.ensemble = SampleEnsembleOptions{.gain = 0};
  const auto trained = [&](const FitOptions& options, int stop = -1) {
    return train_with(
        stop, [&](const Training& training) { return fit(training, options); }, samples);
  };
  const Trained wanted = trained({.epochs = 3});
  EXPECT_LT(wanted.epochs.back().validation, wanted.epochs.front().validation);
  for (const int stop : {2, 31, 75}) {
    const testing::TemporaryFolder folder;
    FitOptions options{.epochs = 3, .checkpoint = folder / "checkpoint.safetensors", .checkpoint_every = 4};
    EXPECT_THROW(trained(options, stop), Interrupt);
    options.replay = true;
    expect_same(trained(options), wanted, "after " + std::to_string(stop));
  }
}

TEST(SampleForecastTraining, AccumulatedUpdatesDrawOneBatchAfterTheOther) {
  // 30 batches an epoch: the last update has two of four.
  FitOptions options{.epochs = 3, .accumulate = 4};
  const Trained called = fitted(options);
  options.replay = true;
  expect_same(fitted(options), called, "replayed");
  for (const auto& [name, tensor] : called.state) {
    if (name != "drawn") continue;
    EXPECT_EQ(tensor.to_vector<int64_t>(), std::vector<int64_t>{90});
  }
}

TEST(SampleForecastTraining, SixteenBitsTrainToo) {
  const Trained trained = fitted({.epochs = 3, .amp = DType::bf16});
  EXPECT_LT(trained.epochs.back().validation, trained.epochs.front().validation);
}

TEST(SampleForecastTraining, HybridResumesToTheSameBits) {
  HybridOptions options{.steps = 90};
  options.warm_up = 10;
  options.start = 0;
  options.window = 8;
  options.horizon = 2;
  options.full = 6;
  options.correct = 12;
  options.guard_every = 3;
  const Trained wanted = foretold(options);
  options.checkpoint_every = 7;
  for (const int stop : {9, 20, 31, 50, 72}) {
    const testing::TemporaryFolder folder;
    options.checkpoint = folder / "checkpoint.safetensors";
    options.replay = false;
    EXPECT_THROW(foretold(options, stop), Interrupt);
    options.replay = true;
    expect_same(foretold(options), wanted, "after " + std::to_string(stop));
  }
}

TEST(SampleForecastTraining, ALossWithoutSamplesIsRefused) {
  Random random(7);
  Linear model(4, 1, random);
  Adam optimizer(model.parameters());
  SampleForecast data({Tensor::ones({20, 4})}, {.batch = 4, .steps = 10});
  const auto loss = [&](const std::vector<Tensor>& batch) { return ad::mean(model(batch[0])); };
  testing::expect_error<ShapeError>([&] { fit({model, optimizer, data, loss}, {}); }, {"one for each sample"});
}

}  // namespace
}  // namespace ashlar::nn

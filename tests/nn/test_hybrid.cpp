// The hybrid trainer: jumps, guard, verdicts, resumption in the middle of phases.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "ashlar/ashlar.h"
#include "nn/hybrid/hybrid_trainer.h"
#include "nn/modules/activations.h"
#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/safetensors.h"
#include "tests/nn/killed.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

/// What the loss function is called with: the calls so far, and the weights.
using Observer = std::function<void(int64_t call, const Tensor& arena)>;

TensorDataset points() {
  Random random(3);
  const Tensor x = Tensor::randn({240, 4}, random);
  return TensorDataset({x, x.slice(1, 0, 2) * x.slice(1, 2, 4)});
}

/// Small phases: a jump every 18 steps, 150 steps, epochs of 30 batches.
HybridOptions small(Forecaster forecaster) {
  HybridOptions options;
  options.steps = 150;
  options.forecaster = forecaster;
  options.warm_up = 10;
  options.start = 0;
  options.window = 8;
  options.horizon = 2;
  options.snapshots = 5;
  options.full = 6;
  options.correct = 12;
  options.guard_every = 3;
  options.tolerance = 3;
  return options;
}

struct Result {
  HybridReport report;
  NamedTensors weights;
  double learning_rate = 0;
};

/// All that has a state: dropout, moments, a schedule, shuffling by two workers.
template <class Train>
Result train_with(const Observer& observe, Train run) {
  Random random(7);
  Sequential model(Linear(4, 32, random), ReLU(), Dropout(0.1, {.random = &random}), Linear(32, 2, random));
  Adam optimizer(model.parameters(), {.learning_rate = 0.01});
  Scheduler scheduler(optimizer, warm_up_stable_decay(150, 10, 60));
  const TensorDataset data = points();
  DataLoader loader(data, {.batch = 8, .shuffle = true, .seed = 5, .workers = 2});
  int64_t calls = 0;
  const auto loss = [&](const std::vector<Tensor>& batch) {
    if (observe) observe(calls, optimizer.arena_values()[0]);
    calls++;
    const Var error = ad::sub(model(batch[0]).to(DType::f32), batch[1]);
    return ad::mean(ad::mul(error, error));
  };
  Result result;
  result.report = run(Training{model, optimizer, loader, loss, &scheduler});
  result.weights = model.state_dict(Saved::with_checkpoints);
  for (const auto& [name, tensor] : optimizer.state_dict()) result.weights.emplace_back("optimizer." + name, tensor);
  result.learning_rate = optimizer.learning_rate();
  return result;
}

Result train(const HybridOptions& options, const Observer& observe = {}) {
  return train_with(observe, [&](const Training& training) { return HybridTrainer(training, options).train(); });
}

/// The same with forecasts of the loss that are made from the 16th step on, and believed soon.
HybridOptions small_with_forecasts(Forecaster forecaster) {
  HybridOptions options = small(forecaster);
  options.length = JumpLength::forecast;
  options.horizon = 8;
  options.confidence = 0.3;
  options.loss_forecast = {.hidden = 8,
                           .encoded = 8,
                           .horizon = 3,
                           .block = 2,
                           .every = 4,
                           .batch = 8,
                           .memory = 64,
                           .held_out = 16,
                           .learning_rate = 0.01,
                           .gain = 0,
                           .rise = 1};
  return options;
}

void expect_same(const NamedTensors& got, const NamedTensors& wanted, const std::string& when) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); i++) {
    EXPECT_EQ(got[i].second.to_doubles(), wanted[i].second.to_doubles()) << wanted[i].first << " " << when;
  }
}

TEST(Hybrid, WithoutAForecasterItIsFit) {
  for (const std::optional<DType> amp : {std::optional<DType>(), std::optional(DType::f16)}) {
    HybridOptions options = small(Forecaster::none);
    options.amp = amp;
    const Result hybrid = train(options);
    const Result plain = train_with({}, [&](const Training& training) {
      return HybridReport{.epochs = fit(training, {.epochs = 5, .amp = amp}), .phases = {}, .statistics = {}};
    });
    expect_same(hybrid.weights, plain.weights, "of fit()");
    ASSERT_EQ(hybrid.report.epochs.size(), 5U);
    for (size_t i = 0; i < 5; i++) EXPECT_EQ(hybrid.report.epochs[i].loss, plain.report.epochs[i].loss);
    EXPECT_EQ(hybrid.report.phases.size(), 1U);
    EXPECT_EQ(hybrid.report.statistics.ordinary_steps(), 150);
  }
}

TEST(Hybrid, JumpsWhereTheDirectionPoints) {
  std::vector<std::vector<double>> plain, hybrid;  // weights before each step
  const auto into = [](auto& list) {
    return [&list](int64_t, const Tensor& arena) { list.push_back(arena.to_doubles()); };
  };
  train(small(Forecaster::none), into(plain));
  const Result result = train(small(Forecaster::direction), into(hybrid));
  // Warm-up of 10 steps, a window of 8: the first jump is before call 18.
  for (size_t call = 0; call < 18; call++) ASSERT_EQ(hybrid[call], plain[call]) << call;
  const auto &now = plain[18], &then = plain[10];
  for (size_t i = 0; i < now.size(); i++) {
    EXPECT_NEAR(hybrid[18][i], now[i] + 2.0 / 8.0 * (now[i] - then[i]), 1e-6);
  }
  const HybridStatistics& statistics = result.report.statistics;
  EXPECT_EQ(statistics.predict.visits, 6);
  EXPECT_EQ(statistics.predict.steps, 12);
  EXPECT_EQ(statistics.accepted + statistics.rejected + statistics.rolled_back, 6);
  EXPECT_GT(statistics.accepted, 0);
  // 150 steps: 12 of them weren't computed, and the schedule went along.
  EXPECT_EQ(hybrid.size(), 138U);
  EXPECT_EQ(statistics.ordinary_steps(), 138);
  EXPECT_EQ(result.learning_rate, 0);
  EXPECT_GT(statistics.seconds_saved, 0);
  int64_t step = 0;
  for (const PhaseRecord& record : result.report.phases) {
    EXPECT_EQ(record.step, step) << name_of(record.phase);
    step += record.steps;
  }
  EXPECT_EQ(step, 150);
}

TEST(Hybrid, ReplayedStepsGiveTheSameBits) {
  HybridOptions options = small(Forecaster::direction);
  options.average = 0.9;
  const Result called = train(options);
  options.replay = true;
  int64_t calls = 0;
  const Result replayed = train(options, [&](int64_t, const Tensor&) { calls++; });
  EXPECT_EQ(calls, 2);  // the first step, and the one that was captured
  expect_same(replayed.weights, called.weights, "replayed");
  // A loss that waits for the device can't be captured: an error where it was asked for.
  EXPECT_THROW(train(options, [](int64_t, const Tensor& arena) { arena.sum().item(); }), GraphError);
}

TEST(Hybrid, EveryForecasterTrains) {
  const double first = train(small(Forecaster::none)).report.epochs.front().loss;
  for (const Forecaster forecaster :
       {Forecaster::last_move, Forecaster::line, Forecaster::modes, Forecaster::nowcast}) {
    const Result result = train(small(forecaster));
    EXPECT_GT(result.report.statistics.predict.visits, 2) << name_of(forecaster);
    EXPECT_LT(result.report.epochs.back().loss, first) << name_of(forecaster);
  }
}

TEST(Hybrid, JumpsAreAsLongAsTheirConfidenceAllows) {
  HybridOptions options;
  options.horizon = 10;
  EXPECT_EQ(options.jump_length(0.8499, 0), 0);
  EXPECT_EQ(options.jump_length(0.85, 0), 7);  // 10 · 0.7225
  EXPECT_EQ(options.jump_length(1, 0), 10);
  EXPECT_EQ(options.jump_length(1, 3), 7);
  EXPECT_EQ(options.jump_length(1, 5), 5);
  EXPECT_EQ(options.jump_length(1, 50), 5);
  EXPECT_EQ(options.jump_length(std::numeric_limits<double>::quiet_NaN(), 0), 0);
  options.confidence = 0.01;
  EXPECT_EQ(options.jump_length(0.1, 0), 1);
  options.forecaster = Forecaster::modes;  // whose stride is 5
  EXPECT_EQ(options.jump_length(0.1, 0), 5);
  EXPECT_EQ(options.jump_length(0.9, 0), 5);
  EXPECT_EQ(options.jump_length(1, 0), 10);
  for (const JumpLength length : {JumpLength::fixed, JumpLength::forecast}) {
    EXPECT_EQ(parse_jump_length(name_of(length)), length);
  }
  EXPECT_THROW(parse_jump_length("far"), ValueError);
  options.steps = 100;
  options.confidence = 1.5;
  EXPECT_THROW(options.validate(), ValueError);
  options.confidence = 0.85;
  options.residuals = 4;
  EXPECT_THROW(options.validate(), ValueError) << "without forecasts";
  options.length = JumpLength::forecast;
  options.validate();
  options.loss_forecast.block = 3;
  EXPECT_THROW(options.validate(), ValueError);
}

TEST(Hybrid, ForecastsOfTheLossDecideWhenAndHowFar) {
  HybridOptions options = small_with_forecasts(Forecaster::direction);
  options.divergence = 100;  // nothing is taken back
  std::ostringstream log;
  options.log = &log;
  const Result result = train(options);
  const HybridStatistics& statistics = result.report.statistics;
  EXPECT_GT(statistics.predict.visits, 1) << log.str();
  EXPECT_GT(statistics.held_back, 1);  // before anything was known
  EXPECT_GT(statistics.forecast_seconds, 0);
  EXPECT_LT(statistics.forecast_seconds, statistics.seconds_spent + 1e-9);
  EXPECT_NE(log.str().find("losses can't be foretold"), std::string::npos);
  EXPECT_NE(statistics.str().find("held back"), std::string::npos);
  EXPECT_EQ(statistics.ordinary_steps() + statistics.predict.steps, 150);
  int64_t in_a_row = 0;
  for (size_t i = 0; i < result.report.phases.size(); i++) {
    const PhaseRecord& record = result.report.phases[i];
    if (record.held_back > 0 || record.verdict == Verdict::rejected) in_a_row = 0;
    if (record.phase != Phase::predict) continue;
    EXPECT_GE(record.confidence, options.confidence);
    EXPECT_EQ(record.steps, options.jump_length(record.confidence, in_a_row)) << i;
    in_a_row++;
  }
  EXPECT_GT(result.report.loss_forecast.forecasts, 10);
  EXPECT_GT(result.report.loss_forecast.updates, 10);
  // Where nothing is certain enough there are no jumps, and the steps are those of an ordinary training.
  options.confidence = 1;
  const Result never = train(options), plain = train(small(Forecaster::none));
  EXPECT_EQ(never.report.statistics.predict.visits, 0);
  expect_same(never.weights, plain.weights, "without a jump");
}

TEST(Hybrid, ForecastsOfTheLossInReplayedStepsGiveTheSameBits) {
  HybridOptions options = small_with_forecasts(Forecaster::direction);
  options.residuals = 2;
  options.residual_rank = 2;
  const Result called = train(options);
  options.replay = true;
  expect_same(train(options).weights, called.weights, "replayed");
}

TEST(Hybrid, AMonitorInReplayedStepsGivesTheSameBits) {
  for (const JumpLength length : {JumpLength::fixed, JumpLength::forecast}) {
    HybridOptions options =
        length == JumpLength::fixed ? small(Forecaster::line) : small_with_forecasts(Forecaster::line);
    options.correct = 18;
    const Result without = train(options);
    const double never = std::numeric_limits<double>::infinity();
    options.monitor = {.loss_deviations = never, .gradient_most = never, .gradient_least = 0, .swing = never};
    expect_same(train(options).weights, without.weights, "quiet");
    options.monitor = {.loss_deviations = 0.01, .gradient_most = 1.001};
    const Result called = train(options);
    options.replay = true;
    const Result replayed = train(options);
    EXPECT_GT(called.report.statistics.alarms, 0) << name_of(length);
    EXPECT_EQ(replayed.report.statistics.alarms, called.report.statistics.alarms);
    expect_same(replayed.weights, called.weights, "replayed");
  }
}

TEST(Hybrid, ResidualsCorrectLaterJumps) {
  HybridOptions options = small_with_forecasts(Forecaster::line);
  const Result without = train(options);
  options.residuals = 3;
  options.residual_rank = 2;
  const Result with = train(options);
  ASSERT_GT(without.report.statistics.predict.visits, 1);
  ASSERT_GT(with.report.statistics.predict.visits, 1);
  EXPECT_NE(with.weights[0].second.to_doubles(), without.weights[0].second.to_doubles());
}

TEST(Hybrid, GoesBackToTheBitWhenAJumpDiverges) {
  for (const int64_t horizon : {3000, 1'000'000'000}) {  // a large loss, and one that overflows
    HybridOptions options = small(Forecaster::direction);
    options.steps = 150 + horizon;  // so that jumps fit in
    options.longest_pause = 2;
    options.horizon = horizon;
    std::vector<std::vector<double>> plain, hybrid;
    struct Enough {};
    const auto until = [](auto& list, int64_t stop) {
      return [&list, stop](int64_t call, const Tensor& arena) {
        if (call == stop) throw Enough();
        list.push_back(arena.to_doubles());
      };
    };
    HybridOptions without = options;
    without.forecaster = Forecaster::none;
    EXPECT_THROW(train(without, until(plain, 40)), Enough);
    std::ostringstream log;
    options.log = &log;
    EXPECT_THROW(train(options, until(hybrid, 40)), Enough);
    ASSERT_EQ(hybrid.size(), 40U);
    EXPECT_NE(hybrid[18], plain[18]);
    EXPECT_EQ(hybrid[21], plain[18]);  // after three corrections back to where the jump was
    EXPECT_NE(log.str().find("back to step 18"), std::string::npos) << log.str();
    // The pause doubled to 12 steps: the next jump is before call 33.
    EXPECT_LT(std::abs(hybrid[32][0] - hybrid[31][0]), 0.1);
    EXPECT_GT(std::abs(hybrid[33][0] - hybrid[32][0]), 0.1);
    for (size_t call = 34; call < 36; call++) ASSERT_EQ(hybrid[call].size(), plain[0].size());
    EXPECT_EQ(log.str().find("accepted"), std::string::npos);
  }
}

TEST(Hybrid, TheGoodStateHasMomentsCountsAndBuffers) {
  Random random(7);
  Sequential model(Linear(4, 8, random), Dropout(0.5, {.random = &random}), Linear(8, 2, random));
  Adam optimizer(model.parameters());
  const Tensor more = Tensor::full({3}, 1);
  GoodState good(model, optimizer, {more});
  EXPECT_THROW(good.restore(), ValueError);
  const auto step = [&] {
    optimizer.zero_grad();
    backward(ad::mean(model(Tensor::full({5, 4}, 1))));
    optimizer.step();
    more += 1;
  };
  const auto everything = [&] {
    NamedTensors all = model.state_dict(Saved::with_checkpoints);
    for (const auto& [name, tensor] : optimizer.state_dict()) all.emplace_back(name, tensor);
    all.emplace_back("more", more);
    for (auto& [name, tensor] : all) tensor = tensor.clone();
    return all;
  };
  step();
  const NamedTensors then = everything();
  good.keep();
  step();
  EXPECT_NE(everything().back().second.to_doubles(), then.back().second.to_doubles());
  good.restore();
  expect_same(everything(), then, "restored");
}

TEST(Hybrid, JumpsTakenBackAreCounted) {
  HybridOptions options = small(Forecaster::direction);
  options.divergence = 1.0001;  // so that noise alone will do
  options.divergence_errors = 0;
  const Result result = train(options);
  const HybridStatistics& statistics = result.report.statistics;
  EXPECT_GT(statistics.rolled_back, 1);
  EXPECT_EQ(statistics.predict.visits, statistics.accepted + statistics.rejected + statistics.rolled_back);
  EXPECT_GT(statistics.seconds_spent, statistics.predict.seconds);
  // What was taken back was computed again: as many steps more.
  int64_t taken_back = 0;
  for (size_t i = 1; i < result.report.phases.size(); i++) {
    const PhaseRecord& record = result.report.phases[i];
    if (record.verdict == Verdict::rolled_back) taken_back += record.steps + options.horizon;
  }
  EXPECT_EQ(statistics.ordinary_steps() + statistics.predict.steps, 150 + taken_back);
  for (const FitEpoch& epoch : result.report.epochs) EXPECT_TRUE(epoch.loss > 0 && epoch.loss < 10) << epoch.loss;
  options.divergence_errors = 3;
  EXPECT_LT(train(options).report.statistics.rolled_back, statistics.rolled_back) << "noise alone won't do";
}

TEST(Hybrid, JumpsGoOnAfterOneThatAnEpochsEndTookBack) {
  HybridOptions options = small(Forecaster::direction);
  options.warm_up = 14;  // a jump after 22 steps, of 30 in an epoch; else one looks after 12 corrections
  options.guard_every = 12;
  options.full = 1;
  options.longest_pause = 1;
  options.horizon = 500;  // far enough to diverge
  options.steps = 150 + options.horizon;
  const Result result = train(options);
  ASSERT_GT(result.report.phases.size(), 4U);
  const PhaseRecord& first = result.report.phases[3];
  EXPECT_EQ(first.verdict, Verdict::rolled_back);
  EXPECT_EQ(first.steps, 8);
  EXPECT_GT(result.report.statistics.predict.visits, 1);
}

TEST(Hybrid, NoJumpIsToBlame) {
  const auto spoil = [](int64_t call, const Tensor& arena) {
    if (call == 14) arena.fill_(std::numeric_limits<double>::quiet_NaN());
  };
  EXPECT_THROW(train(small(Forecaster::direction), spoil), DivergenceError);
}

TEST(Hybrid, WorseLossesAreRejectedAndPauseTheJumps) {
  HybridOptions options = small(Forecaster::direction);
  options.divergence = 100;
  const auto jumps = [&](double tolerance, bool harm) {
    options.tolerance = tolerance;
    int64_t calls = 0;
    return train(options,
                 [&](int64_t call, const Tensor& arena) {
                   // From the first jump on the weights are driven away a little in each step.
                   if (harm && call >= 18) arena.copy_(arena * 1.02);
                   calls++;
                 })
        .report.statistics;
  };
  const HybridStatistics good = jumps(1000, false), harmed = jumps(0, true);
  EXPECT_EQ(good.rejected, 0);
  EXPECT_GT(harmed.rejected, 0);
  EXPECT_LT(harmed.predict.visits, good.predict.visits);
}

TEST(Hybrid, EndsWithTheAverage) {
  HybridOptions options = small(Forecaster::none);
  options.steps = 40;
  std::vector<std::vector<double>> before;  // weights before each step, which are those after the one before
  train(options, [&](int64_t, const Tensor& weights) { before.push_back(weights.to_doubles()); });
  options.steps = 39;
  options.average = 0.5;
  const Result averaged = train(options);
  std::vector<double> mean = before[1];
  for (size_t n = 2; n < 40; n++) {
    for (size_t i = 0; i < mean.size(); i++) mean[i] = 0.5 * mean[i] + 0.5 * before[n][i];
  }
  const auto first = averaged.weights[0].second.to_doubles();  // the arena begins with it
  for (size_t i = 0; i < first.size(); i++) EXPECT_NEAR(first[i], mean[i], 1e-5);
}

HybridOptions in_folder(const std::filesystem::path& folder, Forecaster forecaster) {
  HybridOptions options = small(forecaster);
  options.average = 0.9;
  options.checkpoint = folder / "checkpoint.safetensors";
  options.checkpoint_every = 7;
  options.metrics = folder / "metrics.csv";
  options.phases = folder / "phases.csv";
  return options;
}

/// The training that the test below kills.
TEST(Hybrid, InAProcessOfItsOwn) {
  const char* folder = std::getenv(testing::kChildFolder);
  if (folder == nullptr) GTEST_SKIP() << "run by Hybrid.KilledAndResumedGivesTheSameBits";
  const Result result = train(in_folder(folder, Forecaster::modes));
  write_safetensors(std::filesystem::path(folder) / "done", result.weights);
}

HybridOptions with_forecasts_in_folder(const std::filesystem::path& folder) {
  HybridOptions options = in_folder(folder, Forecaster::line);
  const HybridOptions forecasts = small_with_forecasts(Forecaster::line);
  options.length = forecasts.length;
  options.horizon = forecasts.horizon;
  options.confidence = forecasts.confidence;
  options.loss_forecast = forecasts.loss_forecast;
  options.residuals = 2;
  options.residual_rank = 2;
  return options;
}

TEST(Hybrid, WithForecastsInAProcessOfItsOwn) {
  const char* folder = std::getenv(testing::kChildFolder);
  if (folder == nullptr) GTEST_SKIP() << "run by Hybrid.KilledWithForecastsAndResumedGivesTheSameBits";
  const Result result = train(with_forecasts_in_folder(folder));
  write_safetensors(std::filesystem::path(folder) / "done", result.weights);
}

TEST(Hybrid, KilledWithForecastsAndResumedGivesTheSameBits) {
  testing::expect_same_bits_when_killed("Hybrid.WithForecastsInAProcessOfItsOwn", {"done", "metrics.csv"});
}

TEST(Hybrid, KilledAndResumedGivesTheSameBits) {
  testing::expect_same_bits_when_killed("Hybrid.InAProcessOfItsOwn", {"done", "metrics.csv"});
}

/// The same in one process: interrupted at the `stop`-th loss, where a checkpoint was written, and begun again. The
/// result of an unbroken one.
Result expect_same_when_interrupted(int64_t stop, HybridOptions (*options_for)(const std::filesystem::path& folder),
                                    bool amp) {
  struct Interrupt {};
  const testing::TemporaryFolder unbroken, broken;
  const auto options_in = [&](const testing::TemporaryFolder& folder) {
    HybridOptions options = options_for(folder.path());
    options.divergence = stop % 2 == 0 ? 1.6 : 1.0001;
    options.divergence_errors = 0;
    options.checkpoint_every = stop;
    if (amp) options.amp = DType::f16;
    return options;
  };
  Result wanted = train(options_in(unbroken));
  const auto interrupt = [&](int64_t call, const Tensor&) {
    if (call == stop) throw Interrupt();
  };
  EXPECT_THROW(train(options_in(broken), interrupt), Interrupt);
  const Result resumed = train(options_in(broken));
  expect_same(resumed.weights, wanted.weights, "after " + std::to_string(stop));
  const std::vector<PhaseRecord>&got = resumed.report.phases, &want = wanted.report.phases;
  EXPECT_EQ(got.size(), want.size()) << stop;
  for (size_t i = 0; i < std::min(got.size(), want.size()); i++) {
    EXPECT_EQ(got[i].steps, want[i].steps);
    EXPECT_EQ(got[i].loss, want[i].loss);
    EXPECT_EQ(got[i].verdict, want[i].verdict);
    EXPECT_EQ(got[i].alarm, want[i].alarm);
    EXPECT_EQ(got[i].confidence, want[i].confidence);
    EXPECT_EQ(got[i].held_back, want[i].held_back);
  }
  EXPECT_EQ(resumed.report.loss_forecast.error, wanted.report.loss_forecast.error);
  EXPECT_EQ(resumed.report.loss_forecast.forecasts, wanted.report.loss_forecast.forecasts);
  EXPECT_EQ(testing::read_bytes(broken / "metrics.csv"), testing::read_bytes(unbroken / "metrics.csv"));
  return wanted;
}

/// In warm-up, window, jump, corrections, at verdicts and at ends of epochs.
TEST(Hybrid, ResumesInTheMiddleOfEveryPhase) {
  const auto options_for = [](const std::filesystem::path& folder) {
    HybridOptions options = in_folder(folder, Forecaster::line);
    options.steps = 75;
    return options;
  };
  for (const int64_t stop : {9, 14, 19, 20, 30, 31, 50}) expect_same_when_interrupted(stop, options_for, stop > 19);
}

TEST(Hybrid, ResumesWithANowcaster) {
  const auto options_for = [](const std::filesystem::path& folder) {
    HybridOptions options = in_folder(folder, Forecaster::nowcast);
    options.steps = 75;
    return options;
  };
  for (const int64_t stop : {14, 20, 31, 50}) expect_same_when_interrupted(stop, options_for, stop > 19);
}

TEST(Hybrid, ResumesWithAMonitor) {
  const auto options_for = [](const std::filesystem::path& folder) {
    HybridOptions options = in_folder(folder, Forecaster::line);
    options.steps = 75;
    options.correct = 18;
    options.monitor = {.loss_deviations = 0.5, .gradient_most = 1.2};
    return options;
  };
  int64_t alarms = 0;
  for (const int64_t stop : {14, 20, 31, 50}) {
    alarms += expect_same_when_interrupted(stop, options_for, stop > 19).report.statistics.alarms;
  }
  EXPECT_GT(alarms, 0);
}

TEST(Hybrid, ResumesWithForecastsInTheMiddleOfEveryPhase) {
  for (const int64_t stop : {9, 18, 41, 63, 85, 100, 117}) {
    const Result unbroken = expect_same_when_interrupted(stop, with_forecasts_in_folder, stop > 60);
    EXPECT_GT(unbroken.report.statistics.predict.visits, 0);
  }
}

TEST(Hybrid, RefusesCheckpointsOfOthers) {
  const testing::TemporaryFolder folder;
  HybridOptions options = in_folder(folder.path(), Forecaster::direction);
  options.checkpoint_every = 50;
  train(options);
  options.horizon = 4;
  EXPECT_THROW(train(options), ValueError);
  options.horizon = 2;
  options.length = JumpLength::forecast;
  EXPECT_THROW(train(options), ValueError);
  options.length = JumpLength::fixed;
  options.correct = 18;
  options.checkpoint = folder / "of_a_monitor";
  options.monitor.emplace();
  train(options);
  options.monitor->gradient_most = 50;
  EXPECT_THROW(train(options), ValueError);
  options.monitor.reset();
  EXPECT_THROW(train(options), ValueError);
  options = in_folder(folder.path(), Forecaster::direction);
  train_with({}, [&](const Training& training) {
    return HybridReport{
        .epochs = fit(training, {.epochs = 1, .checkpoint = folder / "of_fit"}), .phases = {}, .statistics = {}};
  });
  options.checkpoint = folder / "of_fit";
  EXPECT_THROW(train(options), ValueError);
  const auto text = testing::read_bytes(folder / "phases.csv");
  EXPECT_NE(std::string(text.begin(), text.end()).find("predict"), std::string::npos);
}

}  // namespace
}  // namespace ashlar::nn

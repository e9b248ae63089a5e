// The hybrid trainer's alarms: what each looks at, and trainings made so that it sounds.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <sstream>
#include <vector>

#include "ashlar/ashlar.h"
#include "nn/hybrid/divergence_monitor.h"
#include "nn/hybrid/hybrid_trainer.h"
#include "nn/modules/linear.h"
#include "nn/optim/sgd.h"

namespace ashlar::nn {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- by itself

/// After a jump from losses with mean 1, deviation 0.1 and changes of 0.2, and from norms with mean 2.
DivergenceMonitor after_a_jump(const DivergenceMonitorOptions& options = {}, bool has_overflows = false) {
  DivergenceMonitor monitor(options, has_overflows);
  monitor.jump(std::vector{0.9, 1.1, 0.9, 1.1, 0.9, 1.1}, std::vector{1.0, 3.0, 2.0, 2.0, 1.0, 3.0});
  return monitor;
}

Alarm check(const DivergenceMonitor& monitor, const std::vector<double>& losses, const std::vector<double>& norms) {
  return monitor.check(losses, norms, losses.size());
}

TEST(DivergenceMonitor, EachAlarmHasItsLimit) {
  const DivergenceMonitor monitor = after_a_jump();
  EXPECT_EQ(check(monitor, {1, 1}, {2, 2}), Alarm::none);
  EXPECT_EQ(check(monitor, {1.29, 1.29}, {2, 2}), Alarm::none);
  EXPECT_EQ(check(monitor, {1.31, 1.31}, {2, 2}), Alarm::loss);
  EXPECT_EQ(check(monitor, {1.5, 1}, {2, 2}), Alarm::none) << "their mean counts";
  EXPECT_EQ(check(monitor, {0, 0}, {2, 2}), Alarm::none) << "small ones are welcome";
  EXPECT_EQ(check(monitor, {1, 1}, {199, 2}), Alarm::none);
  EXPECT_EQ(check(monitor, {1, 1}, {201, 2}), Alarm::gradient_large);
  EXPECT_EQ(check(monitor, {1, 1}, {0.021, 2}), Alarm::none);
  EXPECT_EQ(check(monitor, {1, 1}, {0.019, 2}), Alarm::gradient_small);
  EXPECT_EQ(check(monitor, {1, kNaN}, {2, 2}), Alarm::not_finite);
  EXPECT_EQ(check(monitor, {1, kNever}, {2, 2}), Alarm::not_finite);
  EXPECT_EQ(check(monitor, {1, 1}, {2, kNaN}), Alarm::not_finite);
  EXPECT_EQ(check(monitor, {1, 1}, {kNever, 2}), Alarm::not_finite);
  // What was looked at before isn't again.
  EXPECT_EQ(monitor.check(std::vector{kNaN, 1.0, 1.0}, std::vector{900.0, 2.0, 2.0}, 2), Alarm::none);
}

TEST(DivergenceMonitor, OscillationIsManyTurnsOfLargeChanges) {
  const auto losses = [](double size, size_t calm) {
    std::vector<double> all;
    for (size_t i = 0; i < 16; i++)
      all.push_back(i < calm ? 1 + 0.01 * static_cast<double>(i) : 1 + (i % 2 ? size : 0));
    return all;
  };
  const std::vector<double> norms(16, 2.0);
  const DivergenceMonitor monitor = after_a_jump({.loss_deviations = 100});
  EXPECT_EQ(monitor.check(losses(0.5, 0), norms, 5), Alarm::oscillation);
  EXPECT_EQ(monitor.check(losses(0.35, 0), norms, 5), Alarm::none) << "twice as large as before are 0.4";
  EXPECT_EQ(monitor.check(losses(5, 5), norms, 5), Alarm::none) << "ten turns of fourteen";
  std::vector<double> fifteen = losses(0.5, 0);
  fifteen.pop_back();
  EXPECT_EQ(monitor.check(fifteen, norms, 5), Alarm::none) << "too few";
  const DivergenceMonitor early = after_a_jump({.loss_deviations = 100, .oscillation_steps = 15});
  EXPECT_EQ(early.check(fifteen, norms, 5), Alarm::oscillation);
  const DivergenceMonitor never = after_a_jump({.loss_deviations = 100, .swing = kNever});
  EXPECT_EQ(never.check(losses(5, 0), norms, 5), Alarm::none);
}

TEST(DivergenceMonitor, NumbersSwitchAlarmsOff) {
  const DivergenceMonitor monitor =
      after_a_jump({.loss_deviations = kNever, .gradient_most = kNever, .gradient_least = 0, .swing = kNever});
  EXPECT_EQ(check(monitor, {1e30, 1e30}, {1e30, 0}), Alarm::none);
  EXPECT_EQ(check(monitor, {1, kNaN}, {2, 2}), Alarm::not_finite);
  // Loss scaling leaves out steps whose gradients overflow: those alone are no alarm.
  const DivergenceMonitor scaled = after_a_jump({}, /*has_overflows=*/true);
  EXPECT_EQ(check(scaled, {1, 1}, {kNever, kNaN}), Alarm::none);
  EXPECT_EQ(check(scaled, {1, kNaN}, {2, 2}), Alarm::not_finite);
  EXPECT_EQ(check(scaled, {1, 1}, {kNever, 201}), Alarm::gradient_large);
  // Where gradients were 0, or nothing was before, there is nothing to compare with.
  DivergenceMonitor still({});
  EXPECT_EQ(check(still, {1e9, kNaN}, {1, 1}), Alarm::none);
  still.jump(std::vector{1.0, 1.0}, std::vector{0.0, 0.0});
  EXPECT_EQ(check(still, {1, 1}, {1e9, 0}), Alarm::none);
  EXPECT_EQ(check(still, {1 + 1e-9, 1}, {0, 0}), Alarm::none) << "losses all the same: their last digits";
  EXPECT_EQ(check(still, {1.001, 1.001}, {0, 0}), Alarm::loss);
}

TEST(DivergenceMonitor, GoesOnFromItsState) {
  DivergenceMonitor later({});
  later.restore(after_a_jump().state());
  EXPECT_EQ(later.state(), after_a_jump().state());
  EXPECT_EQ(check(later, {1.29, 1.29}, {2, 2}), Alarm::none);
  EXPECT_EQ(check(later, {1.31, 1.31}, {2, 2}), Alarm::loss);
  EXPECT_THROW(later.restore({1, 2}), ValueError);
  EXPECT_THROW(later.jump({}, {}), ValueError);
  EXPECT_THROW(later.jump(std::vector{1.0, 2.0}, std::vector{1.0}), ValueError);
}

TEST(DivergenceMonitor, RefusesWhatCantBe) {
  const auto refuses = [](auto change) {
    HybridOptions options;
    options.steps = 100;
    options.monitor.emplace();
    options.validate();
    change(options, *options.monitor);
    EXPECT_THROW(options.validate(), ValueError);
  };
  refuses([](auto&, auto& m) { m.loss_deviations = 0; });
  refuses([](auto&, auto& m) { m.loss_deviations = kNaN; });
  refuses([](auto&, auto& m) { m.gradient_most = 1; });
  refuses([](auto&, auto& m) { m.gradient_least = 1; });
  refuses([](auto&, auto& m) { m.gradient_least = -0.1; });
  refuses([](auto&, auto& m) { m.turns = 0; });
  refuses([](auto&, auto& m) { m.turns = 1.1; });
  refuses([](auto&, auto& m) { m.swing = 0; });
  refuses([](auto&, auto& m) { m.oscillation_steps = 7; });
  refuses([](auto&, auto& m) { m.oscillation_steps = 51; });  // corrections are 50
  refuses([](auto& o, auto&) { o.correct = 10; });
}

// ---- trainings whose losses and gradients are made up

constexpr int64_t kJump = 18;  // steps computed before the first one

/// What the loss is at a call, and its slope by each weight.
struct Script {
  std::function<double(int64_t call)> level = [](int64_t call) {
    return 1 + 0.01 * (static_cast<double>(call * call % 7) - 3) / 3;
  };
  std::function<double(int64_t call)> slope = [](int64_t) { return 1.0; };
  int64_t overflow = -1;  // a call at which the slope is infinite and the loss isn't
};

/// A jump of 2 steps, then 20 corrections, looked at after 5, 10, 15 and 20. No other guard sounds but for NaN.
HybridOptions options_with(std::optional<DivergenceMonitorOptions> monitor) {
  HybridOptions options;
  options.steps = 80;
  options.warm_up = 10;
  options.start = 0;
  options.window = 8;
  options.horizon = 2;
  options.full = 6;
  options.correct = 20;
  options.tolerance = 1000;
  options.divergence = 1000;
  options.monitor = monitor;
  return options;
}

struct Result {
  HybridReport report;
  std::vector<std::vector<double>> weights;  // before each call
};

Result train(const Script& script, const HybridOptions& options, int64_t stop = -1) {
  struct Enough {};
  Random random(5);
  Linear model(2, 1, {.bias = false, .random = &random});
  SGD optimizer(model.parameters(), {.learning_rate = 0.01});
  const TensorDataset data({Tensor::zeros({8000, 1})});  // no epoch ends before the training
  DataLoader loader(data, {.batch = 8});
  Result result;
  const auto loss = [&](const std::vector<Tensor>&) {
    const auto call = static_cast<int64_t>(result.weights.size());
    if (call == stop) throw Enough();
    result.weights.push_back(optimizer.arena_values()[0].to_doubles());
    const Var sum = ad::sum(model.weight()), nothing = ad::sub(sum, sum.detach());
    if (call != script.overflow) return ad::affine(nothing, script.slope(call), script.level(call));
    return ad::affine(ad::affine(nothing, 1e30, 0), 1e30, script.level(call));
  };
  try {
    result.report = HybridTrainer({model, optimizer, loader, loss}, options).train();
  } catch (const Enough&) {
  }
  return result;
}

/// The weights before the first jump.
std::vector<double> before_the_jump(const Script& script) {
  HybridOptions plain = options_with({});
  plain.forecaster = Forecaster::none;
  return train(script, plain, kJump + 1).weights.at(kJump);
}

/// The alarm sounds after so many corrections, and takes the weights back to the bit.
void expect_alarm(const Script& script, Alarm alarm, int64_t corrections) {
  SCOPED_TRACE(name_of(alarm));
  std::ostringstream log;
  HybridOptions options = options_with(DivergenceMonitorOptions());
  options.log = &log;
  const Result result = train(script, options);
  const std::vector<PhaseRecord>& phases = result.report.phases;
  ASSERT_GT(phases.size(), 4U) << log.str();
  EXPECT_EQ(phases[3].phase, Phase::correct);
  EXPECT_EQ(phases[3].verdict, Verdict::rolled_back);
  EXPECT_EQ(phases[3].alarm, alarm) << name_of(phases[3].alarm);
  EXPECT_EQ(phases[3].steps, corrections);
  EXPECT_EQ(phases[4].phase, Phase::full);
  EXPECT_EQ(phases[4].step, kJump);
  const std::vector<double> before = before_the_jump(script);
  EXPECT_NE(result.weights.at(kJump), before);  // it jumped
  EXPECT_EQ(result.weights.at(static_cast<size_t>(kJump + corrections)), before);
  EXPECT_NE(log.str().find("alarm: " + std::string(name_of(alarm)) + ": back to step 18"), std::string::npos)
      << log.str();
  // The later jumps, of which nothing is wrong, are kept.
  EXPECT_EQ(result.report.statistics.rolled_back, 1);
  EXPECT_EQ(result.report.statistics.alarms, 1);
  EXPECT_GT(result.report.statistics.accepted, 0);
  EXPECT_NE(result.report.statistics.str().find("1 of those rolled back by an alarm"), std::string::npos);
}

bool is_kept(const Script& script, const std::optional<DivergenceMonitorOptions>& monitor) {
  const HybridStatistics statistics = train(script, options_with(monitor)).report.statistics;
  EXPECT_EQ(statistics.alarms, 0);
  return statistics.rolled_back == 0 && statistics.rejected == 0 && statistics.accepted > 0;
}

Script disturbed(int64_t first, int64_t last, std::function<double(int64_t)> Script::*what, double value) {
  Script script;
  script.*what = [usual = script.*what, first, last, value](int64_t call) {
    return call >= first && call <= last ? value : usual(call);
  };
  return script;
}

TEST(HybridMonitor, LossesTakeAJumpBack) {
  const Script script = disturbed(kJump, kJump + 4, &Script::level, 1.05);
  expect_alarm(script, Alarm::loss, 5);
  EXPECT_TRUE(is_kept(script, {}));
  EXPECT_TRUE(is_kept(script, DivergenceMonitorOptions{.loss_deviations = kNever}));
}

TEST(HybridMonitor, LargeGradientsTakeAJumpBack) {
  const Script script = disturbed(kJump + 7, kJump + 7, &Script::slope, 150);
  expect_alarm(script, Alarm::gradient_large, 10);
  EXPECT_TRUE(is_kept(script, {}));
  EXPECT_TRUE(is_kept(script, DivergenceMonitorOptions{.gradient_most = 200}));
}

TEST(HybridMonitor, SmallGradientsTakeAJumpBack) {
  const Script script = disturbed(kJump + 2, kJump + 2, &Script::slope, 0.005);
  expect_alarm(script, Alarm::gradient_small, 5);
  EXPECT_TRUE(is_kept(script, {}));
  EXPECT_TRUE(is_kept(script, DivergenceMonitorOptions{.gradient_least = 0.001}));
}

TEST(HybridMonitor, OscillationTakesAJumpBack) {
  Script script;
  script.level = [usual = script.level](int64_t call) {
    if (call < kJump || call >= kJump + 20) return usual(call);
    return call % 2 == 0 ? 1.03 : 0.97;
  };
  expect_alarm(script, Alarm::oscillation, 20);
  EXPECT_TRUE(is_kept(script, {}));
  EXPECT_TRUE(is_kept(script, DivergenceMonitorOptions{.swing = 100}));
}

TEST(HybridMonitor, GradientsThatArentFiniteTakeAJumpBackBeforeALossIsNaN) {
  Script script;
  script.overflow = kJump + 4;
  expect_alarm(script, Alarm::not_finite, 5);
  // Without it the next losses are NaN, which the guard sees at its next look.
  const HybridReport plain = train(script, options_with({})).report;
  EXPECT_EQ(plain.statistics.rolled_back, 1);
  EXPECT_EQ(plain.statistics.alarms, 0);
  EXPECT_EQ(plain.phases.at(3).steps, 10);
  EXPECT_EQ(plain.phases.at(3).alarm, Alarm::none);
}

TEST(HybridMonitor, QuietItChangesNothing) {
  const Result with = train({}, options_with(DivergenceMonitorOptions())), without = train({}, options_with({}));
  EXPECT_GT(with.report.statistics.accepted, 1);
  EXPECT_EQ(with.weights, without.weights);
  ASSERT_EQ(with.report.phases.size(), without.report.phases.size());
  for (size_t i = 0; i < with.report.phases.size(); i++) {
    EXPECT_EQ(with.report.phases[i].loss, without.report.phases[i].loss);
    EXPECT_EQ(with.report.phases[i].alarm, Alarm::none);
  }
}

}  // namespace
}  // namespace ashlar::nn

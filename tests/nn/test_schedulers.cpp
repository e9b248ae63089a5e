// Learning rates: the schedules against PyTorch's step-by-step rules, written here in double; replayed steps obey.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "ashlar/ops.h"
#include "nn/optim/scheduler.h"
#include "nn/optim/sgd.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class SchedulersOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, SchedulersOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

std::vector<double> rates(const Schedule& schedule, double base, int64_t steps) {
  std::vector<double> all;
  for (int64_t t = 0; t < steps; t++) all.push_back(schedule(base, t));
  return all;
}

void expect_rates(const Schedule& schedule, double base, const std::vector<double>& wanted) {
  const auto got = rates(schedule, base, static_cast<int64_t>(wanted.size()));
  for (size_t t = 0; t < wanted.size(); t++) EXPECT_NEAR(got[t], wanted[t], 1e-12) << "step " << t;
}

TEST(Schedules, StepsAndPowers) {
  expect_rates(step_lr(2, 0.5), 8, {8, 8, 4, 4, 2, 2, 1});
  expect_rates(multi_step_lr({4, 1}, 0.1), 1, {1, 0.1, 0.1, 0.1, 0.01, 0.01});
  expect_rates(multi_step_lr({1, 1}, 0.5), 1, {1, 0.25});
  expect_rates(exponential_lr(0.5), 4, {4, 2, 1, 0.5});
  expect_rates(constant_lr(0.25, 2), 4, {1, 1, 4, 4});
  expect_rates(linear_lr(0.5, 1, 4), 0.05, {0.025, 0.03125, 0.0375, 0.04375, 0.05, 0.05});  // PyTorch's own example
  expect_rates(polynomial_lr(4, 1), 0.001, {0.001, 0.00075, 0.0005, 0.00025, 0, 0});        // and this
}

// CosineAnnealingLR's recursion; its period is 2 · T_max.
TEST(Schedules, CosinesFollowTheirRecursion) {
  double rate = 0.3;
  std::vector<double> wanted{rate};
  constexpr double kLeast = 0.01;
  for (int t = 1; t <= 10; t++) {
    rate =
        (1 + std::cos(std::numbers::pi * t / 10)) / (1 + std::cos(std::numbers::pi * (t - 1) / 10)) * (rate - kLeast) +
        kLeast;
    wanted.push_back(rate);
  }
  expect_rates(cosine_annealing_lr(10, kLeast), 0.3, wanted);
  // CosineAnnealingWarmRestarts: T_cur counts up and starts anew, T_i grows.
  for (const int64_t factor : {1, 2, 3}) {
    wanted.clear();
    int64_t now = 0, cycle = 3;
    for (int t = 0; t < 60; t++) {
      wanted.push_back(0.1 + (1 - 0.1) * (1 + std::cos(std::numbers::pi * double(now) / double(cycle))) / 2);
      if (++now == cycle) {
        now = 0;
        cycle *= factor;
      }
    }
    expect_rates(cosine_annealing_warm_restarts(3, factor, 0.1), 1, wanted);
  }
}

TEST(Schedules, OneCycleRisesAndFalls) {
  const Schedule schedule =
      one_cycle_lr(1, 10, {.pct_start = 0.3, .linear = true, .div_factor = 4, .final_div_factor = 25});
  expect_rates(schedule, 99,
               {0.25, 0.625, 1, 1 - 0.99 / 7, 1 - 0.99 * 2 / 7, 1 - 0.99 * 3 / 7, 1 - 0.99 * 4 / 7, 1 - 0.99 * 5 / 7,
                1 - 0.99 * 6 / 7, 0.01, 0.01});
  const auto smooth = rates(one_cycle_lr(0.1, 100), 0, 100);
  EXPECT_NEAR(smooth[0], 0.1 / 25, 1e-12);
  EXPECT_NEAR(smooth[29], 0.1, 1e-12);
  EXPECT_NEAR(smooth[99], 0.1 / 25 / 1e4, 1e-12);
  EXPECT_NEAR(smooth[29 + 35], (0.1 + 4e-7) / 2, 1e-12) << "halfway down";
}

TEST(Schedules, WarmUpStableDecay) {
  expect_rates(warm_up_stable_decay(10, 2, 4, 0.5), 8, {4, 8, 8, 8, 8, 8, 8, 7, 6, 5, 4, 4});
  expect_rates(warm_up_stable_decay(3, 0, 3), 3, {3, 2, 1, 0, 0});
  expect_rates(sequential_lr({linear_lr(0.5, 1, 2), step_lr(2, 0.5)}, {2}), 8, {4, 6, 8, 8, 4, 4, 2});
}

TEST(Schedules, NonsenseIsRefused) {
  EXPECT_THROW(step_lr(0), ValueError);
  EXPECT_THROW(cosine_annealing_lr(-1), ValueError);
  EXPECT_THROW(cosine_annealing_warm_restarts(3, 0), ValueError);
  EXPECT_THROW(one_cycle_lr(1, 10, {.pct_start = 1}), ValueError);
  EXPECT_THROW(warm_up_stable_decay(10, 6, 5), ValueError);
  EXPECT_THROW(sequential_lr({step_lr(1)}, {3}), ValueError);
  EXPECT_THROW(sequential_lr({step_lr(1), step_lr(1), step_lr(1)}, {3, 2}), ValueError);
}

TEST(Schedulers, EveryGroupHasItsOwnBase) {
  const Var a(Tensor::ones({1}), true), b(Tensor::ones({1}), true);
  SGD optimizer({{{a}, {.learning_rate = 1}}, {{b}, {.learning_rate = 0.5}}});
  Scheduler scheduler(optimizer, step_lr(2, 0.5));
  for (const double factor : {1.0, 1.0, 0.5, 0.5, 0.25}) {
    EXPECT_EQ(optimizer.learning_rate(0), factor);
    EXPECT_EQ(optimizer.learning_rate(1), 0.5 * factor);
    scheduler.step();
  }
  EXPECT_EQ(scheduler.steps(), 5);
  // A training that goes on: the rates in the optimiser are those of step 5, the bases are kept beside.
  Scheduler resumed(optimizer, step_lr(2, 0.5));
  resumed.restore(4, scheduler.base_rates());
  EXPECT_EQ(optimizer.learning_rate(1), 0.125);
  EXPECT_THROW(resumed.restore(4, {1.0}), ValueError);
  EXPECT_THROW(resumed.go_to(-1), ValueError);
}

TEST(Schedulers, PlateausLowerTheRate) {
  const Var a(Tensor::ones({1}), true);
  const auto run = [&](const PlateauOptions& options, const std::vector<double>& metrics) {
    SGD optimizer({a}, {.learning_rate = 1});
    ReduceLROnPlateau scheduler(optimizer, options);
    std::vector<double> rates;
    for (const double metric : metrics) {
      scheduler.step(metric);
      rates.push_back(optimizer.learning_rate());
    }
    return rates;
  };
  using Rates = std::vector<double>;
  EXPECT_EQ(run({.factor = 0.5, .patience = 1}, {5, 4, 4, 4, 4, 4, 3}), (Rates{1, 1, 1, 0.5, 0.5, 0.25, 0.25}));
  EXPECT_EQ(run({.larger_is_better = true, .factor = 0.5, .patience = 0}, {5, 4, 6, 6}), (Rates{1, 0.5, 0.5, 0.25}));
  EXPECT_EQ(run({.factor = 0.5, .patience = 0, .threshold = 1, .absolute_threshold = true}, {5, 4.5, 3.9}),
            (Rates{1, 0.5, 0.5}));
  EXPECT_EQ(run({.factor = 0.5, .patience = 0, .cooldown = 2}, {1, 1, 1, 1, 1}), (Rates{1, 0.5, 0.5, 0.5, 0.25}));
  EXPECT_EQ(run({.factor = 0.5, .patience = 0, .min_lr = 0.4}, {1, 1, 1, 1}), (Rates{1, 0.5, 0.4, 0.4}));
  EXPECT_EQ(run({.factor = 0.5, .patience = 0}, {std::nan(""), 1, 1}), (Rates{0.5, 0.5, 0.25}));
  SGD optimizer({a}, {});
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.factor = 1}), ValueError);
}

// The rate lies on the device: a captured step that is replayed uses the one of now.
TEST_P(SchedulersOnDevice, ReplayedStepsObey) {
  const Var w(Tensor::zeros({3}, DType::f32, device()), true);
  SGD optimizer({w}, {.learning_rate = 1});
  Scheduler scheduler(optimizer, exponential_lr(0.5));
  w.set_grad(Tensor::full({3}, -1, DType::f32, device()));
  optimizer.step();
  const Graph graph = capture(device(), [&] { optimizer.step(); });
  double wanted = 1;
  for (int t = 1; t < 6; t++) {
    scheduler.step();
    graph.replay();
    wanted += std::pow(0.5, t);
    EXPECT_EQ(w.value().to_vector<float>()[2], static_cast<float>(wanted));
  }
  EXPECT_EQ(optimizer.steps(), 6);
}

}  // namespace
}  // namespace ashlar::nn

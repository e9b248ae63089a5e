// The features of a training's state: what they are, and that they are numbers whatever comes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "nn/hybrid/step_recorder.h"
#include "nn/hybrid/training_state.h"
#include "nn/modules/linear.h"
#include "nn/optim/adam.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

struct Numbers {
  std::vector<double> losses, gradients, rates;
  TrainingMeasures measures() const {
    TrainingMeasures result;
    result.losses = losses;
    result.gradients = gradients;
    result.rates = rates;
    result.now = {0.1, {2.0, 0.5}};
    result.before = {0.1, {1.0, 0.5}};
    result.phase = Phase::correct;
    result.steps_in_phase = 3;
    result.progress = 0.25;
    return result;
  }
};

Numbers falling(size_t steps, double scale = 1) {
  Numbers numbers;
  for (size_t i = 0; i < steps; i++) {
    const auto t = static_cast<double>(i);
    numbers.losses.push_back(scale * (2 * std::exp(-t / 100) + 0.1 * std::sin(1.7 * t)));
    numbers.gradients.push_back(1 + 0.2 * std::cos(t));
    numbers.rates.push_back(0.01 * std::pow(0.5, t / 64));
  }
  return numbers;
}

std::map<std::string, double> named(const TrainingState& state) {
  std::map<std::string, double> result;
  for (size_t i = 0; i < state.size(); i++) result[std::string(state_features()[i].name)] = state[i];
  return result;
}

TEST(TrainingState, HasSixtyFourNamedFeaturesAsDocumented) {
  std::set<std::string_view> names;
  for (const StateFeature& feature : state_features()) {
    EXPECT_FALSE(feature.name.empty());
    EXPECT_FALSE(feature.formula.empty()) << feature.name;
    names.insert(feature.name);
  }
  EXPECT_EQ(names.size(), 64U);
  std::ifstream file(std::string(ASHLAR_SOURCE_DIR) + "/docs/hybrid.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find(state_features_table()), std::string::npos) << "docs/hybrid.md wants\n"
                                                                        << state_features_table();
}

TEST(TrainingState, FeaturesAreWhatTheTableSays) {
  Numbers numbers;
  for (int i = 0; i < 300; i++) {
    numbers.losses.push_back(i < 284 ? 3.0 : 1.0);  // the last 16 are lower by 2
    numbers.gradients.push_back(i < 284 ? 1.0 : std::exp(1.0));
    numbers.rates.push_back(i < 236 ? 0.1 : 0.01);
  }
  const auto of = named(training_state(numbers.measures()));
  const double mean = (240 * 3.0 + 16 * 1.0) / 256;
  const double unit = std::sqrt((240 * std::pow(3 - mean, 2) + 16 * std::pow(1 - mean, 2)) / 256);
  EXPECT_NEAR(of.at("loss.size"), std::asinh(mean), 1e-5);
  EXPECT_NEAR(of.at("loss.current"), (1 - mean) / unit, 1e-5);
  EXPECT_NEAR(of.at("loss.mean16"), (1 - mean) / unit, 1e-5);
  EXPECT_NEAR(of.at("loss.mean64"), (2.5 - mean) / unit, 1e-5);
  EXPECT_NEAR(of.at("loss.most256"), (3 - mean) / unit, 1e-5);
  EXPECT_NEAR(of.at("loss.change16"), -2 / unit, 1e-5);
  EXPECT_NEAR(of.at("loss.ratio16"), -0.5, 1e-5);
  EXPECT_NEAR(of.at("loss.trend16"), 0, 1e-5);
  EXPECT_NEAR(of.at("loss.above64"), 0.75, 1e-5);
  EXPECT_NEAR(of.at("loss.since_least"), 15.0 / 256, 1e-5);
  EXPECT_NEAR(of.at("loss.fours3"), (1 - mean) / unit, 1e-5);
  EXPECT_NEAR(of.at("loss.fours4"), (3 - mean) / unit, 1e-5);
  EXPECT_NEAR(of.at("gradient.change16"), 1, 1e-5);
  EXPECT_NEAR(of.at("gradient.current"), 0.75, 1e-5);
  EXPECT_NEAR(of.at("rate.change16"), 0, 1e-5);
  EXPECT_NEAR(of.at("rate.change64"), std::log(0.1), 1e-5);
  EXPECT_NEAR(of.at("rate.of_most"), std::log(0.1), 1e-5);
  EXPECT_NEAR(of.at("moment1.size"), std::log(2.0) - 0.25, 1e-5);
  EXPECT_NEAR(of.at("moment1.change"), std::log(2.0), 1e-5);
  EXPECT_NEAR(of.at("moment2.size"), 0.5 * std::log(0.5) - 0.25, 1e-5);
  EXPECT_EQ(of.at("phase.correct"), 1);
  EXPECT_EQ(of.at("phase.full"), 0);
  EXPECT_NEAR(of.at("phase.steps"), 0.25 * std::log(4.0), 1e-5);
  EXPECT_EQ(of.at("progress"), 0.25);
  // A line of slope 0.5.
  for (int i = 0; i < 300; i++) numbers.losses[static_cast<size_t>(i)] = 0.5 * i;
  const auto line = named(training_state(numbers.measures()));
  const double spread = 0.5 * std::sqrt((256.0 * 256.0 - 1) / 12);
  EXPECT_NEAR(line.at("loss.trend16"), 0.5 * 16 / spread, 1e-5);
  EXPECT_NEAR(line.at("loss.trend256"), 0.5 * 256 / spread, 1e-5);
  EXPECT_EQ(line.at("loss.turns64"), 0);
}

TEST(TrainingState, IsComparableBetweenLossesOfAnySize) {
  const TrainingState small = training_state(falling(400).measures()),
                      large = training_state(falling(400, 1000).measures());
  for (size_t i = 0; i < small.size(); i++) {
    const std::string_view name = state_features()[i].name;
    if (name == "loss.size") {
      EXPECT_GT(large[i], small[i] + 1);
    } else {
      EXPECT_NEAR(large[i], small[i], 1e-4) << name;
    }
  }
}

TEST(TrainingState, IsFiniteWhateverComes) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Numbers> all{falling(1), falling(2), falling(17), falling(300)};
  for (const double value : {0.0, 1.0, -5.0, 1e30, 1e-30, inf, -inf, nan}) {
    Numbers numbers;
    for (int i = 0; i < 40; i++) {
      numbers.losses.push_back(value);
      numbers.gradients.push_back(std::abs(value));
      numbers.rates.push_back(std::isfinite(value) ? std::abs(value) : 0);
    }
    all.push_back(numbers);
    all.push_back(falling(300));
    all.back().losses.back() = value;
    all.back().gradients.back() = value;
  }
  for (size_t n = 0; n < all.size(); n++) {
    for (const bool has_norms : {false, true}) {
      TrainingMeasures measures = all[n].measures();
      if (!has_norms) measures.now = measures.before = {};
      const TrainingState state = training_state(measures);
      for (size_t i = 0; i < state.size(); i++) {
        EXPECT_LE(std::abs(state[i]), 8) << n << " " << state_features()[i].name;  // NaN isn't
      }
    }
  }
}

TEST(TrainingState, RefusesSeriesThatDontAgree) {
  EXPECT_THROW(training_state({}), ValueError);
  Numbers numbers = falling(5);
  numbers.rates.pop_back();
  EXPECT_THROW(training_state(numbers.measures()), ValueError);
}

TEST(StepRecorder, KeepsWhatStepsLeave) {
  Random random(2);
  const Linear model(3, 2, random);
  Adam optimizer(model.parameters(), {.learning_rate = 0.25});
  StepRecorder recorder(optimizer, Device::cpu(), 4);
  for (const Var& parameter : model.parameters()) parameter.set_grad(Tensor::full(parameter.shape(), 0.5));
  optimizer.step();
  const double norm = 0.5 * std::sqrt(8.0);  // of six weights and two biases
  EXPECT_NEAR(optimizer.norm_of_gradients().item(), norm, 1e-6);
  for (int i = 0; i < 4; i++) {
    recorder.measure(Tensor::full({}, i));
    recorder.keep();
  }
  EXPECT_THROW(recorder.keep(), ValueError);
  EXPECT_EQ(recorder.read(), 4);
  EXPECT_EQ(recorder.read(), 0);
  const TrainingMeasures all = recorder.measures(4), earlier = recorder.measures(3);
  EXPECT_EQ(std::vector(all.losses.begin(), all.losses.end()), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(earlier.losses.size(), 3U);
  EXPECT_NEAR(all.gradients[0], norm, 1e-6);
  EXPECT_EQ(all.rates[3], 0.25);
  double squares = 0, count = 0;
  for (const double weight : optimizer.arena_values()[0].to_doubles()) squares += weight * weight, count++;
  EXPECT_NEAR(all.now.weights, std::sqrt(squares / count), 1e-6);
  EXPECT_NEAR(all.now.moments[0], 0.1 * norm, 1e-6);
  EXPECT_NEAR(all.now.moments[1], 0.001 * 0.25 * std::sqrt(8.0), 1e-8);
  // Into another one, with a step that wasn't read.
  recorder.measure(Tensor::full({}, 7));
  recorder.keep();
  StepRecorder twin(optimizer, Device::cpu(), 4);
  twin.load_state_dict(recorder.state_dict());
  EXPECT_EQ(twin.waiting(), 1);
  for (StepRecorder* one : {&recorder, &twin}) {
    one->read();
    EXPECT_EQ(one->count(), 5);
    EXPECT_EQ(one->losses(3, 5)[1], 7);
    one->keep();
    one->go_back(2);
    EXPECT_EQ(one->count(), 2);
    EXPECT_EQ(one->waiting(), 0);
    EXPECT_EQ(one->measures(2).losses.back(), 1);
    EXPECT_THROW(static_cast<void>(one->losses(1, 3)), ValueError);
  }
  StepRecorder other(optimizer, Device::cpu(), 8);
  EXPECT_THROW(other.load_state_dict(recorder.state_dict()), ValueError);
  EXPECT_THROW(other.load_state_dict({}), ValueError);
}

}  // namespace
}  // namespace ashlar::nn

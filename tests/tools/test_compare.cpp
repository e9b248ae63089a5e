// What ashlar-hybrid compares: its tasks, how long a run draws samples, and results that are made once, several at a
// time, or again alone.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ashlar/ashlar.h"
#include "runtime/support/error.h"
#include "tests/nn/temporary_folder.h"
#include "tools/hybrid/compare.h"
#include "tools/hybrid/sampling_cost.h"

namespace ashlar::tools {
namespace {

constexpr int64_t kImages = 360, kTestImages = 60, kClasses = 3;

class Compare : public ::testing::Test {
 protected:
  using Run = tools::Run;  // not the test's own
  Compare() {
    Random random(1);
    const auto word = [](std::ofstream& out, int64_t value) {
      for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(value >> shift & 255));
    };
    for (const auto& [name, count] : {std::pair("train", kImages), {"t10k", kTestImages}}) {  // a bright row each
      std::ofstream images(folder_ / (std::string(name) + "-images-idx3-ubyte"), std::ios::binary);
      std::ofstream labels(folder_ / (std::string(name) + "-labels-idx1-ubyte"), std::ios::binary);
      for (const int64_t value : {int64_t{0x803}, count, int64_t{8}, int64_t{8}}) word(images, value);
      for (const int64_t value : {int64_t{0x801}, count}) word(labels, value);
      for (int64_t i = 0; i < count; i++) {
        labels.put(static_cast<char>(i % kClasses));
        for (int64_t pixel = 0; pixel < 64; pixel++) {
          const bool is_bright = pixel / 8 == 2 * (i % kClasses) + 1;
          images.put(static_cast<char>((is_bright ? 155 : 0) + static_cast<int64_t>(random.below(100))));
        }
      }
    }
    std::ofstream text(folder_ / "text");
    for (int i = 0; i < 400; i++) text << "the quick brown fox, number " << i * i << ", jumps\n";
    data_ = {.fashion = folder_.path(), .mnist = folder_.path(), .text = folder_ / "text"};
  }
  std::unique_ptr<Task> task(const std::string& name, double label_noise = 0) const {
    TaskData data = data_;
    data.label_noise = label_noise;
    return make_task(name, data);
  }
  ResultsOptions results_options() const { return {.file = folder_ / "results.jsonl"}; }
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> rows;
    std::ifstream in(folder_ / "results.jsonl");
    for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
    return rows;
  }

  testing::TemporaryFolder folder_;
  TaskData data_;
};

TEST_F(Compare, TasksGiveALossForEachSampleAndItsMeanOverASplit) {
  for (const char* name : {"regression", "fashion", "fashion-cnn", "mnist-cnn", "char-transformer"}) {
    SCOPED_TRACE(name);
    const std::unique_ptr<Task> task = this->task(name);
    const Network network = task->network(1);
    std::vector<Tensor> batch;
    for (const Tensor& tensor : task->training()) batch.push_back(tensor.slice(0, 0, 7));
    const Var losses = task->losses(network, batch);
    EXPECT_EQ(losses.shape(), Shape{7});
    const std::vector<float> all = losses.value().to_vector<float>();
    for (size_t i = 0; i < all.size(); i++) {  // each its own sample's
      const auto at = static_cast<int64_t>(i);
      const std::vector<Tensor> one{batch[0].slice(0, at, at + 1), batch[1].slice(0, at, at + 1)};
      EXPECT_NEAR(task->losses(network, one).value().item(), all[i], 1e-5);
    }
    const NoGrad no_grad;
    for (const Split split : {Split::validation, Split::test}) {
      const HeldOut held_out = task->evaluate(network, split, Device::cpu());
      EXPECT_GT(held_out.loss, 0);
      EXPECT_GE(held_out.error, 0);
      if (std::string(name) == "regression") {
        EXPECT_EQ(held_out.error, held_out.loss);
      } else {
        EXPECT_LE(held_out.error, 1);
      }
    }
  }
}

TEST_F(Compare, EvaluationCountsAsItShould) {
  const std::unique_ptr<Task> task = this->task("fashion-cnn");
  const Network network = task->network(1);
  for (const auto& [name, parameter] : network.module->named_parameters()) parameter.value().fill_(0);
  const HeldOut held_out = task->evaluate(network, Split::test, Device::cpu());  // all logits 0: class 0 for everything
  EXPECT_NEAR(held_out.loss, std::log(kClasses), 1e-5);
  EXPECT_NEAR(held_out.error, 2.0 / 3.0, 1e-6);

  const std::unique_ptr<Task> text = this->task("char-transformer");
  const Network uniform = text->network(1);
  for (const auto& [name, parameter] : uniform.module->named_parameters()) parameter.value().fill_(0);
  const int64_t characters = uniform.module->named_parameters()[0].second.shape()[0];
  EXPECT_NEAR(text->evaluate(uniform, Split::test, Device::cpu()).loss, std::log(static_cast<double>(characters)),
              1e-4);
}

TEST_F(Compare, WindowsOfTextAreFollowedByTheirTargets) {
  const std::unique_ptr<Task> task = this->task("char-transformer");
  const Tensor inputs = task->training()[0], targets = task->training()[1];
  ASSERT_EQ(inputs.size(1), 64);
  EXPECT_EQ(inputs.slice(1, 1, 64).to_vector<int64_t>(), targets.slice(1, 0, 63).to_vector<int64_t>());
  EXPECT_EQ(inputs.slice(0, 1, 2).slice(1, 0, 48).to_vector<int64_t>(),  // 16 characters on
            inputs.slice(0, 0, 1).slice(1, 16, 64).to_vector<int64_t>());
}

TEST_F(Compare, LabelNoiseMakesAPartOfTheTrainingLabelsWrong) {
  const auto labels_with = [&](double noise) { return task("mnist-cnn", noise)->training()[1].to_vector<int64_t>(); };
  const std::vector<int64_t> right = labels_with(0), noisy = labels_with(0.3), wrong = labels_with(1);
  ASSERT_EQ(right.size(), static_cast<size_t>(kImages - kImages / 6));
  EXPECT_EQ(noisy, labels_with(0.3));
  int64_t changed = 0;
  for (size_t i = 0; i < right.size(); i++) {
    EXPECT_EQ(right[i], static_cast<int64_t>(i) % kClasses);
    EXPECT_NE(wrong[i], right[i]);
    EXPECT_TRUE(noisy[i] >= 0 && noisy[i] < kClasses);
    changed += noisy[i] != right[i];
  }
  EXPECT_NEAR(static_cast<double>(changed) / static_cast<double>(right.size()), 0.3, 0.08);
  // Held-out labels stay: what is measured doesn't change with the noise.
  const Network network = task("mnist-cnn")->network(1);
  EXPECT_EQ(task("mnist-cnn")->evaluate(network, Split::validation, Device::cpu()).loss,
            task("mnist-cnn", 1)->evaluate(network, Split::validation, Device::cpu()).loss);
}

TEST_F(Compare, RefusesWhatCannotBe) {
  EXPECT_THROW(task("nonsense"), ValueError);
  EXPECT_THROW(task("regression", 0.1), ValueError);
  EXPECT_THROW(task("char-transformer", 0.1), ValueError);
  EXPECT_THROW(make_task("mnist-cnn", {}), DataError);
  EXPECT_THROW(make_task("char-transformer", {}), DataError);
  EXPECT_THROW(Results({.file = folder_ / "results.jsonl", .jobs = 2, .alone = true}), ValueError);
  EXPECT_THROW(Results({.file = folder_ / "missing" / "results.jsonl"}), DataError);
  EXPECT_THROW(Results(results_options()).of({.task = "regression"}), ValueError);
}

TEST_F(Compare, KeptJumpsDrawAsManyBatchesAsSaid) {
  const std::unique_ptr<Task> task = this->task("regression");
  for (const bool dense : {false, true}) {
    for (const char* sampler : {"", "last"}) {
      const Run run{.task = "regression",
                    .learning_rate = 1e-4,  // so small that every jump is kept
                    .steps = 700,
                    .seed = 1,
                    .forecaster = nn::Forecaster::direction,
                    .dense = dense,
                    .sampler = sampler};
      SCOPED_TRACE(run.key());
      const Result result = train(*task, run, Device::cpu());
      EXPECT_GT(result.accepted, 0);
      ASSERT_EQ(result.rejected + result.rolled_back, 0);
      EXPECT_EQ(result.computed, least_draws(hybrid_options(run)));
      EXPECT_EQ(result.computed, run.steps - run.horizon * result.accepted);
    }
  }
  EXPECT_EQ(least_draws(hybrid_options({.task = "regression", .steps = 700})), 700);
}

TEST_F(Compare, JumpsThatAForecastOfTheLossDecidesHaveANameAndACost) {
  Run run{.task = "regression",
          .learning_rate = 4e-3,
          .steps = 700,
          .seed = 3,
          .forecaster = nn::Forecaster::direction,
          .dense = true,
          .length = nn::JumpLength::forecast};
  EXPECT_EQ(run.kind(), " direction 40 10 dense forecast");
  EXPECT_EQ(hybrid_options(run).length, nn::JumpLength::forecast);
  run.residuals = 16;
  EXPECT_EQ(run.kind(), " direction 40 10 dense forecast residuals 16");
  EXPECT_EQ(hybrid_options(run).residuals, 16);
  hybrid_options(run).validate();
  const std::unique_ptr<Task> task = this->task("regression");
  const Result result = train(*task, run, Device::cpu());
  EXPECT_GT(result.held_back, 0);  // while nothing is known of forecasts
  EXPECT_GT(result.predict_seconds, 0);
  EXPECT_LT(result.predict_seconds, result.seconds);
  EXPECT_GE(result.computed + run.horizon * (result.accepted + result.rejected), run.steps);
  EXPECT_TRUE(Results(results_options()).make(*task, {run}));
  const std::vector<nlohmann::json> rows = lines();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["length"], "forecast");
  EXPECT_EQ(rows[0]["residuals"], 16);
  EXPECT_EQ(rows[0]["held_back"], result.held_back);
  EXPECT_EQ(rows[0]["loss"], result.averaged.loss);
}

TEST_F(Compare, RunsLearnAndRepeat) {
  const std::unique_ptr<Task> task = this->task("fashion-cnn");
  for (const char* sampler : {"", "last", "age unlimited"}) {
    const Run run{.task = "fashion-cnn", .learning_rate = 4e-3, .steps = 40, .seed = 3, .sampler = sampler};
    SCOPED_TRACE(run.key());
    const Result result = train(*task, run, Device::cpu()), again = train(*task, run, Device::cpu());
    EXPECT_EQ(result.computed, 40);
    EXPECT_GT(result.seconds, 0);
    EXPECT_FALSE(result.diverged);
    EXPECT_LT(result.last.loss, 0.8);  // from ln 3
    EXPECT_EQ(result.last.loss, again.last.loss);
    EXPECT_NE(result.last.loss, result.averaged.loss);
  }
}

TEST_F(Compare, SeveralRunsAtATimeComeToTheSameAndAreMadeAgainAlone) {
  const std::unique_ptr<Task> task = this->task("regression");
  std::vector<Run> runs(5, Run{.task = "regression", .steps = 60, .split = Split::test});
  for (size_t i = 0; i < runs.size(); i++) runs[i].seed = i + 1;
  runs[3].sampler = "last";
  runs[4].split = Split::validation;
  ResultsOptions options = results_options();
  options.jobs = 3;
  EXPECT_TRUE(Results(options).make(*task, runs));
  const std::vector<nlohmann::json> at_once = lines();
  ASSERT_EQ(at_once.size(), 5U);
  EXPECT_TRUE(Results(options).make(*task, runs));
  EXPECT_EQ(lines().size(), 5U);  // nothing twice

  options.jobs = 1;
  options.alone = true;
  EXPECT_TRUE(Results(options).make(*task, runs));
  const std::vector<nlohmann::json> all = lines();
  ASSERT_EQ(all.size(), 9U);  // all but that of the validation split
  for (size_t i = 5; i < all.size(); i++) {
    EXPECT_TRUE(all[i]["alone"]);
    EXPECT_EQ(all[i]["split"], "test");
    for (const nlohmann::json& before : at_once) {
      EXPECT_FALSE(before["alone"]);
      if (before["key"] != all[i]["key"]) continue;
      EXPECT_EQ(before["loss"], all[i]["loss"]);
    }
  }
  EXPECT_TRUE(Results(options).make(*task, runs));
  EXPECT_EQ(lines().size(), 9U);
}

TEST_F(Compare, NoRunBeginsAfterTheLimitAndFailuresAreToldOf) {
  const std::unique_ptr<Task> task = this->task("regression");
  const std::vector<Run> runs{{.task = "regression", .steps = 60, .seed = 1},
                              {.task = "regression", .steps = 60, .seed = 2}};
  for (const int jobs : {1, 2}) {
    ResultsOptions options = results_options();
    options.jobs = jobs;
    options.limit = 0;
    EXPECT_FALSE(Results(options).make(*task, runs));
    options.limit = 1e9;
    std::vector<Run> impossible = runs;
    impossible[1].window = 0;
    impossible[1].forecaster = nn::Forecaster::direction;
    EXPECT_THROW(Results(options).make(*task, impossible), ValueError);
  }
}

TEST_F(Compare, SamplingHasACost) {
  const SamplingCost cost = sampling_cost(*task("regression"), Device::cpu());
  EXPECT_GT(cost.shuffled, 0);
  EXPECT_GT(cost.draw, cost.shuffled);  // it draws in order, too
  EXPECT_GT(cost.update, 0);
  ResultsOptions options = results_options();
  int measured = 0;
  for (int i = 0; i < 2; i++) {
    Results(options).note("cost", [&] {
      measured++;
      return nlohmann::json{{"draw_us", cost.draw}};
    });
  }
  EXPECT_EQ(measured, 1);
  EXPECT_EQ(lines().at(0)["key"], "cost");
}

}  // namespace
}  // namespace ashlar::tools

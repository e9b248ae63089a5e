// What a hybrid training says of its phases: sums, picture, TensorBoard's event files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "ashlar/ashlar.h"
#include "nn/hybrid/hybrid_trainer.h"
#include "nn/hybrid/phase_plot.h"
#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/trainer/plot.h"
#include "tests/nn/event_reader.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

using testing::Message;
using testing::Scalars;

int64_t count_of(const std::string& text, const std::string& what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) count++;
  return count;
}

/// Of the line of that colour.
int64_t points_of(const std::string& svg, const std::string& colour) {
  const size_t line = svg.find("stroke=\"" + colour + "\" points=\"");
  if (line == std::string::npos) return -1;
  const size_t begin = svg.find("points=\"", line) + 8;
  return std::count(&svg[begin], &svg[svg.find('"', begin)], ',');
}

TEST(Plot, ShadesBandsAndDrawsDots) {
  const Panel panel{.title = "loss",
                    .curves = {{"joined", {0, 10}, {1, 2}}, {"dots", {5, NAN}, {1.5, 1}, false, "#123456"}},
                    .bands = {{"one", 0, 4}, {"two", 4, 10}, {"one", 10, 20}}};
  const std::string svg = plot_svg("title", {panel}, "n");
  EXPECT_EQ(count_of(svg, "<polyline"), 1);
  EXPECT_EQ(count_of(svg, "fill=\"#123456\""), 2);  // the finite one, and beside the name
  EXPECT_EQ(count_of(svg, "fill=\"#eeeeee\""), 3);
  EXPECT_EQ(count_of(svg, "fill=\"#dcebf7\""), 2);
  for (const char* name : {">joined</text>", ">dots</text>", ">one</text>", ">two</text>"}) {
    EXPECT_EQ(count_of(svg, name), 1) << name;
  }
  // As wide as the bands: the line ends in the middle, which is at 70 + 500 / 2.
  EXPECT_NE(svg.find(" 320,"), std::string::npos) << svg;
  const std::string empty = plot_svg("title", {{.title = "loss", .curves = {}, .bands = panel.bands}}, "n");
  EXPECT_NE(empty.find("nothing finite to show"), std::string::npos);
  EXPECT_EQ(empty.find("nan"), std::string::npos);
}

/// A jump of each verdict, and a phase that hasn't ended.
std::vector<PhaseRecord> jumps_of_all_kinds() {
  return {
      {.step = 0, .phase = Phase::warm_up, .steps = 100, .seconds = 10, .loss = 2},
      {.step = 100, .phase = Phase::predict, .steps = 10, .seconds = 0.5, .loss = 2},
      {.step = 110, .phase = Phase::correct, .steps = 50, .seconds = 5, .loss = 1.8, .verdict = Verdict::accepted},
      {.step = 160, .phase = Phase::full, .steps = 20, .seconds = 2, .loss = 1.7},
      {.step = 180, .phase = Phase::predict, .steps = 10, .seconds = 0.5, .loss = 1.7},
      {.step = 190, .phase = Phase::correct, .steps = 5, .seconds = 0.5, .loss = 900, .verdict = Verdict::rolled_back},
      {.step = 180, .phase = Phase::full, .steps = 40, .seconds = 4, .loss = 1.6},
      {.step = 220, .phase = Phase::predict, .steps = 10, .seconds = 0.5, .loss = 1.6},
      {.step = 230, .phase = Phase::correct, .steps = 50, .seconds = 5, .loss = 1.58, .verdict = Verdict::rejected},
      {.step = 280, .phase = Phase::full, .steps = 3, .seconds = 0.3}};
}

TEST(PhaseReports, StatisticsAreKnownAfterEachPhase) {
  const std::vector<PhaseRecord> records = jumps_of_all_kinds();
  const std::vector<HybridStatistics> so_far = HybridStatistics::after_each(records);
  ASSERT_EQ(so_far.size(), records.size());
  EXPECT_EQ(so_far[1].accepted, 0);
  EXPECT_NEAR(so_far[1].seconds_saved, 1, 1e-12);  // ten steps of a tenth of a second
  EXPECT_NEAR(so_far[1].seconds_spent, 0.5, 1e-12);
  EXPECT_EQ(so_far[2].accepted, 1);
  EXPECT_NEAR(so_far[4].seconds_saved, 1, 1e-12) << "a jump that will be taken back saves nothing";
  EXPECT_NEAR(so_far[5].seconds_spent, 1.5, 1e-12);
  EXPECT_EQ(so_far[5].rolled_back, 1);
  const HybridStatistics all = HybridStatistics::of(records);
  EXPECT_EQ(all.str(), so_far.back().str());
  EXPECT_EQ(all.rejected, 1);
  EXPECT_EQ(all.ordinary_steps(), 268);
  EXPECT_NEAR(all.seconds_saved, 2, 1e-12);
  EXPECT_EQ(HybridStatistics::of({}).ordinary_steps(), 0);
}

TEST(PhaseReports, ThePictureShowsPhasesAndVerdicts) {
  const std::vector<FitEpoch> epochs{{.loss = 1.9, .validation = 1.95}, {.loss = 1.65, .validation = 1.7}};
  const std::string svg = phase_plot("net", jumps_of_all_kinds(), epochs, {120, 240});
  // Ends of phases that were kept and are over; predicted steps have no loss.
  EXPECT_EQ(points_of(svg, "#1f77b4"), 5) << svg;
  EXPECT_EQ(svg.find(">800</text>"), std::string::npos) << "the loss that was taken back is no part of the axis";
  EXPECT_EQ(points_of(svg, "#9467bd"), 2);
  EXPECT_EQ(points_of(svg, "#17becf"), 2);
  for (const char* colour : {"#2ca02c", "#ff7f0e", "#000000"}) {
    EXPECT_EQ(count_of(svg, std::string("fill=\"") + colour + "\""), 2) << colour;  // a dot, and beside its name
  }
  for (const char* name : {">accepted</text>", ">rejected</text>", ">rolled back</text>", ">warm-up</text>",
                           ">full</text>", ">predict</text>", ">correct</text>", ">saved</text>", ">spent</text>"}) {
    EXPECT_EQ(count_of(svg, name), 1) << name;
  }
  // In the order that they first come in: predict is the second, of two bands; one jump of three was taken back.
  EXPECT_EQ(count_of(svg, "fill=\"#dcebf7\""), 3);
  EXPECT_EQ(count_of(svg, "fill=\"#f2b8a0\""), 3);
}

HybridOptions small() {
  HybridOptions options;
  options.steps = 150;
  options.warm_up = 10;
  options.start = 0;
  options.window = 8;
  options.horizon = 2;
  options.full = 6;
  options.correct = 12;
  options.guard_every = 3;
  options.tolerance = 3;
  return options;
}

struct Result {
  HybridReport report;
  std::vector<double> weights;
};

/// 30 batches in an epoch; `before` is told of each step, and may end the training.
Result train(const HybridOptions& options, const std::function<void(int64_t call)>& before = {}) {
  Random random(7);
  const Tensor x = Tensor::randn({240, 4}, random);
  const TensorDataset data({x, x.slice(1, 0, 2) * x.slice(1, 2, 4)});
  DataLoader loader(data, {.batch = 8, .shuffle = true, .seed = 5});
  Sequential model(Linear(4, 32, random), ReLU(), Linear(32, 2, random));
  Adam optimizer(model.parameters(), {.learning_rate = 0.01});
  int64_t calls = 0;
  const auto loss = [&](const std::vector<Tensor>& batch) {
    if (before) before(calls);
    calls++;
    const Var error = ad::sub(model(batch[0]), batch[1]);
    return ad::mean(ad::mul(error, error));
  };
  Result result;
  result.report = HybridTrainer({model, optimizer, loader, loss}, options).train();
  result.weights = optimizer.arena_values()[0].to_doubles();
  return result;
}

std::string text_of(const std::filesystem::path& file) {
  const auto bytes = testing::read_bytes(file);
  return {bytes.begin(), bytes.end()};
}

TEST(PhaseReports, StandBesideTheTableAndChangeNothing) {
  const testing::TemporaryFolder folder;
  const Result plain = train(small());
  HybridOptions options = small();
  options.phases = folder / "phases.csv";
  options.plot = folder / "phases.svg";
  options.events = folder / "events";
  const Result result = train(options);
  EXPECT_EQ(result.weights, plain.weights);
  const std::vector<PhaseRecord>& phases = result.report.phases;
  ASSERT_GT(result.report.statistics.predict.visits, 2);
  EXPECT_EQ(count_of(text_of(folder / "phases.csv"), "\n"), static_cast<int64_t>(phases.size()) + 1);
  const std::string svg = text_of(folder / "phases.svg");
  EXPECT_NE(svg.find(">Sequential</text>"), std::string::npos);
  EXPECT_NE(svg.find(">predict</text>"), std::string::npos);
  EXPECT_EQ(points_of(svg, "#9467bd"), static_cast<int64_t>(result.report.epochs.size()));
  EXPECT_EQ(svg.find(">validation</text>"), std::string::npos);  // there is none

  const auto files = testing::files_in(folder / "events");
  ASSERT_EQ(files.size(), 1U);
  size_t phase = 0, epoch = 0;
  float accepted = 0;
  for (const Message& event : testing::read_events(files[0])) {
    if (!event.strings.contains(5)) continue;
    const Scalars scalars = testing::scalars_of(event);
    const auto step = static_cast<int64_t>(event.numbers.find(2)->second);
    if (scalars.contains("loss/training")) {
      ASSERT_LT(epoch, result.report.epochs.size());
      EXPECT_EQ(scalars.at("loss/training"), static_cast<float>(result.report.epochs[epoch++].loss));
      continue;
    }
    ASSERT_LT(phase, phases.size());
    const PhaseRecord& record = phases[phase++];
    EXPECT_EQ(step, record.step + record.steps);
    EXPECT_EQ(scalars.at("phase"), static_cast<float>(record.phase));
    EXPECT_EQ(scalars.at("phase/steps"), static_cast<float>(record.steps));
    EXPECT_EQ(scalars.contains("loss/phase"), record.phase != Phase::predict);
    EXPECT_EQ(scalars.contains("seconds/saved"), record.verdict != Verdict::none);
    if (record.verdict != Verdict::none) accepted = scalars.at("jumps/accepted");
  }
  EXPECT_EQ(phase, phases.size());
  EXPECT_EQ(epoch, result.report.epochs.size());
  EXPECT_EQ(accepted, static_cast<float>(result.report.statistics.accepted));
}

TEST(PhaseReports, GoOnWithAnInterruptedTraining) {
  const testing::TemporaryFolder folder;
  HybridOptions options = small();
  options.checkpoint = folder / "checkpoint";
  options.checkpoint_every = 10;
  options.plot = folder / "phases.svg";
  options.events = folder / "events";
  struct Enough {};
  EXPECT_THROW(train(options,
                     [](int64_t call) {
                       if (call == 75) throw Enough();
                     }),
               Enough);
  const Result result = train(options);
  ASSERT_GT(result.report.epochs.size(), 3U);
  EXPECT_EQ(points_of(text_of(folder / "phases.svg"), "#9467bd"), static_cast<int64_t>(result.report.epochs.size()));
  const auto files = testing::files_in(folder / "events");
  ASSERT_EQ(files.size(), 2U);
  int64_t starts = 0;
  for (const auto& file : files) {
    for (const Message& event : testing::read_events(file)) {
      if (!event.strings.contains(7)) continue;
      starts++;
      EXPECT_EQ(testing::parse(event.strings.find(7)->second).numbers.find(1)->second, 1U);  // SessionLog::START
      EXPECT_GT(event.numbers.find(2)->second, 40U);  // a checkpoint was written after 70 computed steps
      EXPECT_LT(event.numbers.find(2)->second, 90U);
    }
  }
  EXPECT_EQ(starts, 1);
  train(options);  // it is over: there is nothing more to tell
  EXPECT_EQ(testing::files_in(folder / "events").size(), 2U);
}

}  // namespace
}  // namespace ashlar::nn

// The tuner's parts without a compiler: results that survive an interrupt, workers that hang or crash, and which
// settings come into a table.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "runtime/forms/library.h"
#include "runtime/support/error.h"
#include "tools/tune/apply.h"
#include "tools/tune/call.h"
#include "tools/tune/judge.h"
#include "tools/tune/kernel_files.h"
#include "tools/tune/supervise.h"

namespace ashlar::tune {
namespace {

class Tune : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ashlar_tune_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    marker = folder_ / "marker";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A kernel with one candidate for each thing to do; see work_as_told().
  static Bundle bundle(const std::vector<std::string>& things) {
    Instance instance{"k", "f32", 0, "", {{64}}, {{{}, "k", "", 0}}, {}};
    for (const std::string& thing : things) instance.candidates.push_back({{{"do", thing}}, "k_" + thing, "", 0});
    return {"cpu", {instance}, {}};
  }
  static std::string status_of(const ResultsFile& results, const Bundle& bundle, size_t candidate) {
    const Instance& instance = bundle.instances[0];
    const Outcome* outcome = results.find(instance, instance.candidates[candidate], {64}, false);
    return outcome ? outcome->status : "none";
  }

  static bool work_as_told(const Bundle& bundle, ResultsFile& results, const RunOptions&, const Teller& tell) {
    tell.where({"cpu", "a device", "its family", "a driver"});
    const Instance& instance = bundle.instances[0];
    for (const Candidate& candidate : instance.candidates) {
      if (results.find(instance, candidate, {64}, false)) continue;
      Outcome outcome{"k", "f32", candidate.tunables, {64}, "", 0, 0, ""};
      tell.begin(outcome);
      const auto thing = candidate.tunables.find("do");
      const std::string name = thing == candidate.tunables.end() ? "" : thing->second;
      if (name == "hang") {
        for (;;) pause();
      }
      if (name == "crash") raise(SIGKILL);
      if (name == "throw") throw std::runtime_error("thrown");
      if (name == "interrupt" && !std::filesystem::exists(marker)) {
        std::ofstream{marker};
        kill(getppid(), SIGINT);
        for (;;) pause();
      }
      outcome.status = name == "fail" ? "failed" : "timed";
      outcome.microseconds = 5;
      results.remember(outcome);
      tell.done(outcome);
      if (name == "fail") return false;
    }
    return true;
  }

  std::filesystem::path folder_;
  static inline std::filesystem::path marker;
};

TEST_F(Tune, AHangingACrashingAndAFailingCandidateAreRecordedAndTheRestIsTimed) {
  const Bundle all = bundle({"hang", "crash", "throw", "fail", "work"});
  ResultsFile results(folder_ / "results.jsonl");
  RunOptions options;
  options.seconds_per_candidate = 0.3;
  std::ostringstream progress;
  const Summary summary = supervise(all, results, options, progress, false, &work_as_told);
  EXPECT_FALSE(summary.interrupted);
  EXPECT_EQ(summary.timed, 2);
  EXPECT_EQ(summary.out, 4);
  const ResultsFile read(folder_ / "results.jsonl");
  EXPECT_EQ(status_of(read, all, 0), "timed");
  EXPECT_EQ(status_of(read, all, 1), "hung");
  EXPECT_EQ(status_of(read, all, 2), "crashed");
  EXPECT_EQ(status_of(read, all, 3), "crashed");
  EXPECT_EQ(status_of(read, all, 4), "failed");
  EXPECT_EQ(status_of(read, all, 5), "timed");
  EXPECT_NE(progress.str().find("do=hang: hung, no sign of life"), std::string::npos) << progress.str();
  EXPECT_NE(read.why_out(all.instances[0], all.instances[0].candidates[3])->message.find("thrown"), std::string::npos);
  EXPECT_EQ(read.results().where.device, "a device");
}

TEST_F(Tune, AnInterruptLosesNothingAndTheNextRunGoesOn) {
  const Bundle all = bundle({"work", "interrupt", "more work"});
  std::ostringstream progress;
  {
    ResultsFile results(folder_ / "results.jsonl");
    const Summary summary = supervise(all, results, {}, progress, false, &work_as_told);
    EXPECT_TRUE(summary.interrupted);
    EXPECT_EQ(summary.timed, 2);
    EXPECT_EQ(summary.todo, 2);
  }
  ResultsFile results(folder_ / "results.jsonl");
  EXPECT_EQ(results.results().outcomes.size(), 2u);
  EXPECT_EQ(supervise(all, results, {}, progress, false, &work_as_told).timed, 4);
  EXPECT_EQ(results.results().outcomes.size(), 4u) << "what was done is done again";
}

TEST_F(Tune, ALineThatWasCutShortIsDroppedAndTheFileGoesOn) {
  const std::filesystem::path file = folder_ / "results.jsonl";
  {
    ResultsFile results(file);
    results.set_where({"cpu", "A", "f", "d"});
    results.add({"k", "f32", {}, {64}, "timed", 1, 0, ""});
  }
  std::ofstream(file, std::ios::app) << "{\"kernel\": \"k";
  {
    ResultsFile results(file);
    EXPECT_EQ(results.results().outcomes.size(), 1u);
    results.add({"k", "f32", {{"tile", "8"}}, {64}, "timed", 2, 0, "\xff no UTF-8"});
  }
  EXPECT_EQ(ResultsFile(file).results().outcomes.size(), 2u);
  EXPECT_THROW(ResultsFile(file).set_where({"cpu", "B", "f", "d"}), DataError) << "another device's results";
  std::ofstream(file, std::ios::app) << "nonsense\n";
  EXPECT_THROW(ResultsFile{file}, DataError);
}

Outcome final_time(const Tunables& tunables, int64_t size, double ratio) {
  return {"k", "f32", tunables, {size}, "final", 10 * ratio, ratio, ""};
}

TEST_F(Tune, ResultsThatAreWrongAreRefusedWithTheLineAndTheRule) {
  const std::filesystem::path file = folder_ / "results.jsonl";
  const std::string where = line_of(Where{"cpu", "A", "f", "d"}) + "\n";
  const std::string outcome = line_of(Outcome{"k", "f32", {{"tile", "8"}}, {64}, "final", 1, 0.5, "m"}) + "\n";
  const auto refusal = [&](const std::string& text) -> std::string {
    std::ofstream(file) << text;
    try {
      ResultsFile{file};
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  };
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string changed = outcome;
    return refusal(where + changed.replace(changed.find(part), part.size(), other));
  };
  const auto has = [](const std::string& said, const std::string& rule) {
    EXPECT_NE(said.find(rule), std::string::npos) << said;
    EXPECT_LT(said.size(), 500U);
  };
  EXPECT_EQ(refusal(where + outcome), "no error");
  has(refusal(where + std::string(1'000'000, '[') + "\n"), "line 2: arrays and objects inside of each other");
  has(refusal("{\"target\":1}\n"), "line 1: the device: target = 1 where text belongs");
  has(refusal(where + "{\n"), "line 2: no JSON");
  has(with("[64]", "[2.7e124]"), "sizes = 2.7e+124 where a whole number from");
  has(with("[64]", "[1" + std::string(300, '0') + "]"), "where a whole number from");
  has(with("[64]", "[0]"), "a size = 0 where a whole number from 1 to 2147483647");
  has(with("[64]", "[9223372036854775808]"), "where a whole number from");
  has(with("[64]", "[1,2,3,4,5,6,7,8,9]"), "9 sizes where at most 8 belong");
  has(with("0.5", "1e999"), "number overflow");
  has(with("0.5", "0"), "took no time");
  has(with("\"8\"", "8"), "tunables: tile = 8 where text belongs");
  has(with("\"kernel\":\"k\"", "\"kernel\":\"k\",\"kernel\":\"l\""), "the key \"kernel\" twice");
}

TEST_F(Tune, ABundleThatIsWrongOrEmptyIsRefused) {
  const auto refusal = [&](const std::string& text) -> std::string {
    std::ofstream(folder_ / "bundle.json") << text;
    try {
      read_bundle(folder_);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  };
  const auto has = [](const std::string& said, const std::string& rule) {
    EXPECT_NE(said.find(rule), std::string::npos) << said;
  };
  const auto with = [&](const std::string& instances) {
    return refusal(R"({"target": "cpu", "origin": {"request": "", "generators": ""}, "instances": [)" + instances +
                   "]}");
  };
  const auto instance = [](const std::string& sizes, const std::string& candidates) {
    return R"({"kernel": "k", "name": "f32", "key": 0, "library": "", "left_out": {}, "sizes": [)" + sizes +
           R"(], "candidates": [)" + candidates + "]}";
  };
  const std::string candidate = R"({"tunables": {}, "symbol": "k", "error": "", "spilled_bytes": 0})";
  EXPECT_EQ(with(instance("[64]", candidate)), "no error");
  has(with(""), "a bundle without instances");
  has(with(instance("[64]", "")), "k f32 without candidates");
  has(with(instance("[2.7e124]", candidate)), "sizes = 2.7e+124 where a whole number from");
  has(refusal(std::string(1'000'000, '[')), "inside of each other");
  has(refusal(""), "no JSON");
}

TEST(Apply, ResultsWithoutTimesAreRefused) {
  Results results{{"cpu", "A", "f", "d"}, {}};
  EXPECT_THROW(apply(results, {}, {}), DataError);
  results.outcomes = {{"k", "f32", {}, {64}, "timed", 1, 0, ""}, final_time({{"tile", "8"}}, 64, 0.5)};
  EXPECT_THROW(apply(results, {}, {}), DataError) << "no default beside it";
}

TEST(Apply, TakesTheFewSettingsThatSaveMost) {
  Results results{{"cpu", "A", "f", "d"}, {}};
  const Tunables a{{"tile", "8"}}, b{{"tile", "16"}}, c{{"tile", "32"}};
  for (const auto& [tunables, at64, at4096] :
       {std::tuple{Tunables{}, 1.0, 1.0}, {a, 0.5, 1.2}, {b, 0.55, 0.9}, {c, 0.99, 0.85}}) {
    results.outcomes.push_back(final_time(tunables, 64, at64));
    results.outcomes.push_back(final_time(tunables, 4096, at4096));
  }
  const auto points = [&](int settings) {
    return apply(results, {}, {.settings = settings, .gain = 0.03}).kernels.at("k").at("f32");
  };
  EXPECT_EQ(points(0)[0].tunables, Tunables{});
  EXPECT_EQ(points(1)[0].tunables, b) << "alone, the one that is good at both";
  EXPECT_EQ(points(1)[1].tunables, b);
  const auto two = points(2);
  EXPECT_EQ(two[0].tunables, a);
  EXPECT_EQ(two[1].tunables, b);
  EXPECT_EQ(two[1].of_default, 0.9);
  EXPECT_EQ(points(3)[1].tunables, c);
}

TEST(Apply, NeverTakesWhatWasWrongAnywhereNorAGainThatIsNone) {
  Results results{{"cpu", "A", "f", "d"}, {}};
  const Tunables wrong{{"tile", "8"}}, hardly{{"tile", "16"}};
  results.outcomes = {final_time(wrong, 64, 0.2),
                      final_time(hardly, 64, 0.98),
                      final_time({}, 64, 1),
                      {"k", "f32", wrong, {33}, "wrong", 0, 0, "element 5"}};
  const dsl::TunedTable table = apply(results, {}, {});
  EXPECT_EQ(table.kernels.at("k").at("f32").at(0).tunables, Tunables{});
  EXPECT_EQ(table.device, "A");
}

TEST(Apply, KeepsOtherPointsOfTheTableAndShapesWithoutADefaultOut) {
  dsl::TunedTable table{"A", "f", {}, {}};
  table.kernels["k"]["f32"] = {{{64}, {{"tile", "4"}}, 1, 0.5}, {{128}, {{"tile", "4"}}, 1, 0.5}};
  table.kernels["other"]["f16"] = {{{1}, {}, 1, 1}};
  Results results{{"cpu", "A", "f", "d"}, {final_time({}, 64, 1), final_time({{"tile", "8"}}, 4096, 0.5)}};
  table = apply(results, table, {});
  const auto& points = table.kernels.at("k").at("f32");
  ASSERT_EQ(points.size(), 2u) << "4096 has no default beside it";
  EXPECT_TRUE(points[0].tunables.empty()) << "measured anew";
  EXPECT_EQ(points[1].tunables.at("tile"), "4");
  EXPECT_TRUE(table.kernels.contains("other"));
}

TEST(Apply, ShapesThatATableCantTellApartCountByTheWorst) {
  Results results{{"cpu", "A", "f", "d"}, {}};
  const auto add = [&](const Tunables& tunables, int64_t rows, int64_t columns, double ratio) {
    results.outcomes.push_back({"k", "f32", tunables, {rows, columns}, "final", ratio, ratio, "", {rows * columns}});
  };
  const Tunables wide{{"tile", "8"}}, both{{"tile", "16"}}, tall{{"tile", "32"}};
  add({}, 10, 1000, 1);
  add({}, 1000, 10, 1);
  add(wide, 10, 1000, 0.2), add(wide, 1000, 10, 1.5);
  add(both, 10, 1000, 0.7), add(both, 1000, 10, 0.8);
  add(tall, 1000, 10, 0.1);  // not timed at the other
  const auto points = apply(results, {}, {}).kernels.at("k").at("f32");
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].sizes, (std::vector<int64_t>{10000}));
  EXPECT_EQ(points[0].tunables, both);
  EXPECT_EQ(points[0].of_default, 0.8);
}

/// An operator's plan at [images, rows], timed beside its own choice ("").
Outcome plan_time(const std::string& plan, std::vector<int64_t> sizes, double ratio) {
  return {"conv",
          dsl::kAnyInstance,
          plan.empty() ? Tunables{} : Tunables{{"plan", plan}},
          std::move(sizes),
          "final",
          10 * ratio,
          ratio,
          ""};
}

TEST(Apply, CallsOfTheSameHalfOctavesCountByTheWorst) {
  Results results{{"cpu", "A", "f", "d"}, {}};
  for (const auto& [sizes, folded, unfolded] : {std::tuple{std::vector<int64_t>{1, 64}, 0.5, 0.8},
                                                {std::vector<int64_t>{1, 55}, 1.2, 0.9},
                                                {std::vector<int64_t>{1, 128}, 0.6, 0.9}}) {
    for (const auto& [plan, ratio] : {std::pair{"folded", folded}, {"unfolded", unfolded}, {"", 1.0}})
      results.outcomes.push_back(plan_time(plan, sizes, ratio));
  }
  dsl::TunedTable table{"A", "f", {}, {}};
  table.kernels["conv"][dsl::kAnyInstance] = {{{1, 70}, {{"plan", "folded"}}, 1, 0.1}};
  const auto points = apply(results, table, {.settings = 0}).kernels.at("conv").at(dsl::kAnyInstance);
  ASSERT_EQ(points.size(), 2u) << "70 was of the same half octave";
  EXPECT_EQ(points[0].sizes, (std::vector<int64_t>{1, 64})) << "the first that was measured";
  EXPECT_EQ(points[0].tunables.at("plan"), "unfolded");
  EXPECT_EQ(points[0].of_default, 0.9);
  EXPECT_EQ(points[1].tunables.at("plan"), "folded") << "whatever the limit for settings that are compiled";
}

TEST(Judge, SaysWhatATableMakesOfOtherCalls) {
  dsl::TunedTable table{"A", "f", {}, {}};
  table.kernels["conv"][dsl::kAnyInstance] = {{{1, 64}, {{"plan", "folded"}}, 1, 0.5}, {{1, 128}, {}, 1, 1}};
  Results results{{"cpu", "A", "f", "d"}, {}};
  const auto add = [&](const std::vector<int64_t>& sizes, double folded, double unfolded) {
    for (const auto& [plan, ratio] : {std::pair{"folded", folded}, {"unfolded", unfolded}, {"", 1.0}})
      results.outcomes.push_back(plan_time(plan, sizes, ratio));
  };
  add({1, 60}, 0.5, 0.25);  // the table's
  add({1, 70}, 2.0, 1.5);   // the table's, wrongly
  add({1, 128}, 0.8, 1.1);  // left to the operator
  add({1, 900}, 0.5, 1.0);  // not in the table
  results.outcomes.push_back(plan_time("unfolded", {1, 66}, 0.5));
  results.outcomes.push_back(plan_time("", {1, 66}, 1));  // folding doesn't apply
  const auto judged = judge(results, {table});
  ASSERT_EQ(judged.size(), 1u);
  EXPECT_EQ(judged[0].operation, "conv");
  EXPECT_EQ(judged[0].calls, 5);
  EXPECT_EQ(judged[0].decided, 2);
  EXPECT_DOUBLE_EQ(judged[0].gained.mean, 1) << "2 and 0.5";
  EXPECT_DOUBLE_EQ(judged[0].gained.worst, 0.5);
  EXPECT_DOUBLE_EQ(judged[0].without.worst, 0.25);
  EXPECT_DOUBLE_EQ(judged[0].with.worst, 0.5);
  EXPECT_DOUBLE_EQ(judged[0].with.mean, std::pow(0.5 * 0.5 * 0.8 * 0.5 * 0.5, 0.2));

  table.device = "B";
  EXPECT_EQ(judge(results, {table})[0].decided, 2) << "a device of the family";
  table.family = "g";
  EXPECT_EQ(judge(results, {table})[0].decided, 0);
  EXPECT_EQ(judge(results, {})[0].gained.mean, 1);
  results.outcomes = {final_time({}, 64, 1)};
  EXPECT_THROW(judge(results, {table}), DataError);
}

TEST(Shapes, OfPlainKernelsAreThoseOfTheirTensors) {
  static constexpr Argument arguments[] = {{"x", Argument::Role::input, 0, DType::f32, 3, -1},
                                           {"gain", Argument::Role::input, 0, DType::f32, 1, -1},
                                           {"y", Argument::Role::output, 0, DType::f32, 3, -1}};
  KernelInfo kernel{kTablesVersion, "k", "", &form_of<forms::Plain>, arguments, {}, 1, nullptr, nullptr, {}};
  kernel.shape_rule = [](const Shape* in, Shape* out) -> const char* {
    out[0] = in[0];
    return in[1][0] == in[0][1] ? nullptr : "gain[0] == x[1]";
  };
  const Inputs inputs = make_inputs(kernel, KernelKey{}.packed(), {2, 3, 5});
  EXPECT_EQ(inputs[0].inputs[0].shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(inputs[0].inputs[1].shape(), (Shape{3})) << "as the rule wants it";
  EXPECT_EQ(size_names(kernel), "axis 0 x axis 1 x axis 2");
  EXPECT_THROW(check_shape(kernel, {30}), ValueError);
  EXPECT_FALSE(check_sizes(kernel).empty());
  for (const auto& sizes : check_sizes(kernel)) EXPECT_NO_THROW(check_shape(kernel, sizes));
  kernel.shape_rule = [](const Shape*, Shape*) -> const char* { return "never"; };
  EXPECT_THROW(check_shape(kernel, {2, 3, 5}), ValueError);
  EXPECT_TRUE(check_sizes(kernel).empty());
}

TEST(Results, KeepHowATableKnowsACall) {
  const Outcome outcome{"k", "f32", {}, {10, 100}, "final", 1, 1, "", {1000}};
  EXPECT_EQ(outcome_of(line_of(outcome)).table_sizes, outcome.table_sizes);
  EXPECT_TRUE(outcome_of(line_of(final_time({}, 64, 1))).table_sizes.empty());
}

TEST(Plot, HasADotForEachCandidate) {
  Results results{{"cpu", "A & B", "f", "d"}, {}};
  for (const double time : {10.0, 5.0, 20.0}) {
    const Tunables tunables = time == 10 ? Tunables{} : Tunables{{"tile", std::to_string(static_cast<int>(time))}};
    results.outcomes.push_back({"k", "f32", tunables, {64}, "timed", time, 0, ""});
  }
  const std::string svg = plot(results);
  EXPECT_NE(svg.find("A &amp; B"), std::string::npos);
  EXPECT_NE(svg.find("best 2.00x"), std::string::npos) << svg;
  size_t dots = 0;
  for (size_t at = 0; (at = svg.find("<circle", at)) != std::string::npos; at++) dots++;
  EXPECT_EQ(dots, 3u);
  EXPECT_NE(plot({}).find("</svg>"), std::string::npos);
}

TEST(Difference, IsMeasuredAgainstTheElementAndTheTypicalOne) {
  const auto tensor = [](std::vector<float> values) {
    return std::vector{Tensor::from<float>(values, {static_cast<int64_t>(values.size())})};
  };
  EXPECT_EQ(difference(tensor({1, 2, 1e-9f}), tensor({1, 2, 2e-9f})), "");
  EXPECT_EQ(difference(tensor({NAN, INFINITY}), tensor({NAN, INFINITY})), "");
  EXPECT_NE(difference(tensor({1, 2, 3}), tensor({1, 2, 3.01f})), "");
  EXPECT_NE(difference(tensor({1, 2}), tensor({1, NAN})), "");
  const Tensor whole = Tensor::from<int64_t>({1, 2}, {2});
  EXPECT_NE(difference({whole}, {Tensor::from<int64_t>({1, 3}, {2})}), "") << "whole numbers are exact";
}

TEST(AssemblerReport, IsRead) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("ashlar_ptxas_" + std::to_string(getpid()));
  std::ofstream(file) << "ptxas info    : 0 bytes gmem\n"
                         "ptxas info    : Compiling entry function '_kernel_a' for 'sm_90'\n"
                         "ptxas info    : Function properties for _kernel_a\n"
                         "    0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
                         "ptxas info    : Used 168 registers, used 1 barriers, 34816 bytes smem, 448 bytes cmem[0]\n"
                         "ashlar info : '_kernel_a' is launched with 1024 bytes smem\n"
                         "ashlar info : '_kernel_b' is launched with 512 bytes smem\n";
  const AssemblerReport report = read_assembler_report(file);
  std::filesystem::remove(file);
  ASSERT_EQ(report.functions.size(), 1u);
  EXPECT_EQ(report.functions[0].name, "_kernel_a");
  EXPECT_EQ(report.functions[0].registers, 168);
  EXPECT_EQ(report.functions[0].shared_bytes, 34816 + 1024);
  EXPECT_EQ(report.spilled_bytes, 12);
}

}  // namespace
}  // namespace ashlar::tune

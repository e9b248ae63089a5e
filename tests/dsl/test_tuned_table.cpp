// Tuned tables: what a file must be, what it means for an instance, and the grid between its points.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "dsl/build/settings.h"
#include "dsl/build/space.h"
#include "dsl/operator.h"
#include "runtime/support/error.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {
namespace {

template <ElementType T>
class Tiled : public Kernel<Tiled<T>> {
 public:
  In<T, 1> x{"x"};
  Tunable<int> tile{"tile", {16, 32, 64}};
  Tunable<int> lanes{"lanes", {4, 8}, On::cpu};
  Tunable<int> threads{"threads", {128, 256}, On::gpu};
  Out<T, 1> y{"y", shape_of(x)};
  Tiled() {
    this->formula("y = x").form(Form::pointwise);
    space_rule("a tile has at most 256 lanes", [this] { return tile.value() * lanes.value() <= 256; });
  }
  void algorithm() { y(i) = x(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }
  Var i{"i"};
};

const KernelSummary& tiled() {
  static const KernelEntry entry{"tiled", {detail::make_instance<Tiled<f32>>({DType::f32})}};
  static const KernelSummary summary = summarize(entry);
  return summary;
}

class TunedTables : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ashlar_tuned_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path write(const std::string& text) const {
    std::ofstream(folder_ / "device.json") << text;
    return folder_ / "device.json";
  }
  static std::string with_points(const std::string& points) {
    return R"({"device": "A", "family": "f", "kernels": {"tiled": {"f32": [)" + points + "]}}}";
  }
  /// The error of reading `text` and asking what it says about the kernel; it must name the file.
  std::string refusal(const std::string& text) const {
    try {
      const std::vector<TunedTable> tables{read_tuned_table(write(text))};
      check_instances({tiled()}, tables);
      settings_of(tiled(), tiled().builds[0], tables);
    } catch (const DataError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("device.json"), std::string::npos) << what;
      return what;
    }
    return "no error";
  }
  std::filesystem::path folder_;
};

TEST_F(TunedTables, AFileComesBackAsItWasWritten) {
  TunedTable table{"NVIDIA \"H\" 200", "9.0", {}};
  table.kernels["tiled"]["f32"] = {{{4096}, {{"tile", "64"}}, 2.5, 0.75}, {{64}, {}, 1, 1}};
  write_tuned_table(table, folder_ / "x" / table_file_name(table.device));
  const TunedTable read = read_tuned_tables(folder_ / "x").at(0);
  EXPECT_EQ(read.device, table.device);
  EXPECT_EQ(read.family, "9.0");
  const auto& points = read.kernels.at("tiled").at("f32");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].sizes, std::vector<int64_t>{64}) << "not sorted";
  EXPECT_EQ(points[1].tunables.at("tile"), "64");
  EXPECT_EQ(points[1].of_default, 0.75);
  EXPECT_EQ(table_file_name("NVIDIA H200"), "nvidia_h200.json");
  EXPECT_TRUE(read_tuned_tables(folder_ / "absent").empty());
}

TEST_F(TunedTables, AFileThatIsWrongIsRefusedWithTheRuleItBreaks) {
  const auto has = [&](const std::string& text, const std::string& rule) {
    const std::string error = refusal(text);
    EXPECT_NE(error.find(rule), std::string::npos) << error;
  };
  const std::string rest = R"("microseconds": 1, "of_default": 1)";
  has("{", "no JSON at byte 2");
  has(std::string(1'000'000, '['), "inside of each other more than");
  has(R"({"device": "A", "family": "f", "kernels": )" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}",
      "inside of each other more than");
  has(R"({"device": "A", "device": "B", "family": "f", "kernels": {}})", "the key \"device\" twice");
  has(with_points(R"({"sizes": [2.7e124], "tunables": {}, )" + rest + "}"), "a size = 2.7e+124 where a whole number");
  has(with_points(R"({"sizes": [1], "tunables": {"tile": 1e999}, )" + rest + "}"), "number overflow");
  has("[]", "the file = an array where an object belongs");
  has("{}", "without \"device\"");
  has(R"({"device": 3})", "device = 3 where text belongs");
  has(R"({"device": "A", "family": "f", "kernels": []})", "kernels = an array where an object belongs");
  has(with_points(R"({"sizes": [0], "tunables": {}, )" + rest + "}"), "a whole number from 1");
  has(with_points(R"({"sizes": [1, 2], "tunables": {}, )" + rest + "}"), "needed 1 for a kernel of this form");
  has(with_points(R"({"sizes": [1], "tunables": {"tile": 17}, )" + rest + "}"), "one of its values 16, 32, 64");
  has(with_points(R"({"sizes": [1], "tunables": {"tile": true}, )" + rest + "}"), "text or a whole number");
  has(with_points(R"({"sizes": [1], "tunables": {"tiles": 16}, )" + rest + "}"), "a tunable of the kernel");
  has(with_points(R"({"sizes": [1], "tunables": {}, "microseconds": -1, "of_default": 1})"), "numbers above 0");
  const std::string point = R"({"sizes": [8], "tunables": {}, )" + rest + "}";
  has(with_points(point + "," + point), "twice where each sizes belong once");
  has(R"({"device": "A", "family": "f", "kernels": {"tiled": {"f64": []}}})", "an instance of the kernel");
  EXPECT_EQ(refusal(with_points(point)), "no error");
  EXPECT_EQ(refusal(R"({"device": "A", "family": "f", "kernels": {"another": {"f9": []}}})"), "no error");
}

TEST_F(TunedTables, SettingsAreSharedByPointsAndTables) {
  TunedTable first{"A", "f", {}}, second{"B", "g", {}};
  first.kernels["tiled"]["f32"] = {{{64}, {{"tile", "64"}}, 1, 1}, {{4096}, {{"tile", "16"}}, 1, 1}};
  second.kernels["tiled"]["f32"] = {{{64}, {{"lanes", "8"}, {"tile", "32"}}, 1, 1}, {{128}, {{"tile", "64"}}, 1, 1}};
  const BuildSettings result = settings_of(tiled(), tiled().builds[0], {first, second});
  ASSERT_EQ(result.settings.size(), 3u);
  EXPECT_EQ(text_of(result.settings[0]), "") << "tile=16 is the default";
  EXPECT_EQ(text_of(result.settings[1]), "tile=64");
  EXPECT_EQ(text_of(result.settings[2]), "tile=32 lanes=8");
  EXPECT_EQ(result.grids.size(), 2u);
  EXPECT_NE(symbol_of(*tiled().entry, tiled().builds[0], "cpu", result.settings[1]),
            symbol_of(*tiled().entry, tiled().builds[0], "cpu", result.settings[2]));
}

/// An operator written by hand that has three ways.
const KernelSummary& sorted() {
  static const bool is_there = register_operator({.name = "sorted",
                                                  .formula = "sorted(x)",
                                                  .dtypes = {DType::f32},
                                                  .inputs = {{"x"}},
                                                  .outputs = {{"y"}},
                                                  .plans = {"radix", "blocks", "merge"},
                                                  .plan_sizes = {"rows", "columns"}});
  EXPECT_TRUE(is_there);
  static const KernelSummary summary = summarize(kernels().back());
  return summary;
}

TEST(TunedPlansOfOperators, AreWhatPointsNameByHalfOctaves) {
  TunedTable table{"A", "f", {}};
  table.kernels["sorted"][kAnyInstance] = {{{1, 64}, {{"plan", "merge"}}, 1, 0.9},
                                           {{1, 65}, {{"plan", "blocks"}}, 1, 0.5},
                                           {{1, 1000}, {}, 1, 1},
                                           {{1, 8}, {{"plan", "radix"}}, 1, 0.9}};
  check_instances({sorted()}, {table});
  const std::vector<MeasuredPlans> all = measured_plans(sorted(), {table, {"B", "g", {}}});
  ASSERT_EQ(all.size(), 1u) << "B has measured nothing";
  EXPECT_EQ(all[0].device, "A");
  const std::vector<int64_t> small{1, 8}, large{1, 64};
  EXPECT_EQ(all[0].classes, (std::vector<uint64_t>{half_octaves(small), half_octaves(large)})) << "ascending";
  EXPECT_EQ(all[0].plans, (std::vector<uint8_t>{0, 1})) << "of 64 and 65 the one that saves more";
}

TEST(TunedPlansOfOperators, WhatIsWrongIsRefused) {
  const auto refused = [](const TunedPoint& point, const std::string& rule) {
    TunedTable table{"A", "f", {}};
    table.kernels["sorted"][kAnyInstance] = {point};
    try {
      measured_plans(sorted(), {table});
      ADD_FAILURE() << rule;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(rule), std::string::npos) << error.what();
    }
  };
  refused({{1, 8}, {{"plan", "bubbles"}}, 1, 0.9}, "one of its plans radix, blocks, merge");
  refused({{1, 8}, {{"tile", "8"}}, 1, 0.9}, "one of its plans");
  refused({{8}, {{"plan", "radix"}}, 1, 0.9}, "2 for the plans of this operator");
  TunedTable table{"A", "f", {}};
  table.kernels["tiled"][kAnyInstance] = {};
  EXPECT_THROW(check_instances({tiled()}, {table}), DataError) << "a form without plans of its own";
}

TEST(Grid, EachClassHasTheNearestPointsSettingWithinItsReach) {
  const TunedTable table{"A", "f", {}};
  // Classes 4 and 11; the box begins one below.
  const Grid grid = grid_of(table, {{{16}, {}, 1, 1}, {{2048}, {}, 1, 1}}, {1, 2});
  EXPECT_EQ(grid.low, std::vector<int>{3});
  EXPECT_EQ(grid.count, std::vector<int>{9});
  EXPECT_EQ(grid.settings, (std::vector<uint16_t>{1, 1, 1, 1, kNoneNear, kNoneNear, 2, 2, 2}));
}

TEST(Grid, DistanceCountsAlongAllSizes) {
  const TunedTable table{"A", "f", {}};
  const Grid grid = grid_of(table, {{{1, 8}, {}, 1, 1}, {{8, 1}, {}, 1, 1}}, {1, 2});
  EXPECT_EQ(grid.count, (std::vector<int>{4, 4}));
  const auto at = [&](int row, int column) { return grid.settings[static_cast<size_t>(row * 4 + column)]; };
  EXPECT_EQ(at(0, 3), 1);
  EXPECT_EQ(at(3, 0), 2);
  EXPECT_EQ(at(1, 2), 1);
  EXPECT_EQ(at(2, 1), 2);
  EXPECT_EQ(at(0, 0), kNoneNear) << "three classes from both";
  EXPECT_THROW(grid_of(table, {{{1, 1, 1, 1}, {}, 1, 1}, {{4096, 4096, 4096, 4096}, {}, 1, 1}}, {0, 0}), DataError);
}

TEST(Space, HasWhatMeansSomethingOnTheTargetAndKeepsTheRules) {
  const Space cpu = space_of(tiled(), tiled().builds[0], "cpu", 80);
  EXPECT_EQ(cpu.settings.size(), 5u) << "3 tiles × 2 lanes without 64 × 8";
  EXPECT_TRUE(cpu.settings[0].empty()) << "the default comes first";
  ASSERT_EQ(cpu.left_out.size(), 1u);
  EXPECT_EQ(cpu.left_out.at("a tile has at most 256 lanes"), 1);
  EXPECT_EQ(space_of(tiled(), tiled().builds[0], "cuda", 80).settings.size(), 6u) << "tiles × threads";
}

}  // namespace
}  // namespace ashlar::dsl

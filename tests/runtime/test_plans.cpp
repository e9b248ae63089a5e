// Which of a kernel's plans a call gets: forced by name, by a table, in the author's order, by the author's model.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/device_identity.h"
#include "runtime/launch/dispatch.h"
#include "runtime/launch/plans.h"
#include "runtime/support/environment.h"
#include "runtime/support/error.h"
#include "tests/runtime/host_kernel.h"

namespace ashlar::testing {
namespace {

const char* last_run = nullptr;
int whole(void** arguments) {
  last_run = "whole";
  return scale_kernel(arguments);
}
int whole_deep(void** arguments) {
  last_run = "whole deep";
  return scale_kernel(arguments);
}
int few(void** arguments) {
  last_run = "few";
  return scale_kernel(arguments);
}
int any(void** arguments) {
  last_run = "any";
  return scale_kernel(arguments);
}

// whole: dense multiples of 8 at aligned offsets, preferred from 64 elements on; few: below 16 elements; any: the rest.
constexpr PlanFeature kFeatures[] = {{0, 0, PlanFeature::Field::extent},
                                     {0, 0, PlanFeature::Field::stride},
                                     {0, 1, PlanFeature::Field::min},
                                     {2, 0, PlanFeature::Field::stride}};
void judge(const int* f, uint64_t* applies, uint64_t* preferred) {
  const bool is_whole = f[0] % 8 == 0 && f[1] == 1 && f[2] % 4 == 0 && f[3] == 1;
  *applies = uint64_t{is_whole} | uint64_t{f[0] < 16} << 1 | uint64_t{4};
  *preferred = uint64_t{f[0] >= 64} | uint64_t{6};
}
void cost(const int* f, const double* device, double* microseconds) {
  microseconds[0] = 1 + f[0] / (8 * device[0]);
  microseconds[1] = f[0] * 0.1;
  microseconds[2] = 2 + f[0];
}

const PlanChoice at_the_start = set_plan_choice(PlanChoice::order);

class PlansOfKernels : public ::testing::Test {
 protected:
  ~PlansOfKernels() override {
    detail::forget_known_calls();
    set_forced_plan("");
    set_forced_setting(-1);
    set_plan_choice(PlanChoice::order);
  }
  /// Runs the kernel on a view of `elements` elements and returns the plan that ran.
  std::string plan_for(int64_t elements, int64_t offset = 0, int64_t step = 1) {
    const Tensor all = Tensor::ones({offset + elements * step}), y = Tensor::empty({elements});
    const Tensor x(all.storage(), {elements}, {step}, offset, DType::f32);
    last_run = "none";
    launch(info_, KernelKey{}, std::array{x}, std::array{Scalar(3.0)}, std::array{y});
    EXPECT_EQ(y.to_vector<float>().back(), 3);
    return last_run;
  }
  void tune(uint16_t setting) {
    detail::forget_known_calls();
    settings_[0] = setting;
    const detail::DeviceIdentity& here = detail::device_identity(Device::cpu());
    grid_ = {KernelKey{}.packed(), here.name_hash, here.family_hash, "a device", {0}, {1}, settings_};
    table_.grids = &grid_;
    table_.grid_count = 1;
  }
  const KernelInfo& info() const { return info_; }

 private:
  static constexpr uint64_t kKey = KernelKey{}.packed();
  const KernelInstance instances_[4] = {{kKey, any, "k_any", "", "", "any", 2},
                                        {with_setting(kKey, 1), whole, "k_whole", "", "", "whole", 0},
                                        {with_setting(kKey, 2), few, "k_few", "", "", "few", 1},
                                        {with_setting(kKey, 300), whole_deep, "k_deep", "depth=4", "", "whole", 0}};
  static constexpr uint16_t kOrder[] = {1, 2, 0};
  const PlanSet plans_{KernelKey{}.packed(), 3, kOrder, kFeatures, 4, judge, cost};
  uint16_t settings_[1];
  TunedGrid grid_{};
  TargetTable table_{instances_, 4, nullptr, 0, 0, &plans_, 1};
  const KernelInfo info_{kTablesVersion, "k",     "",       &form_of<forms::Plain>, kScaleArguments, {}, 1,
                         nullptr,        nullptr, {&table_}};
};

TEST_F(PlansOfKernels, TheFirstThatAppliesAndIsPreferredRuns) {
  EXPECT_EQ(plan_for(64), "whole");
  EXPECT_EQ(plan_for(56), "any") << "whole applies, but isn't preferred";
  EXPECT_EQ(plan_for(65), "any");
  EXPECT_EQ(plan_for(8), "few");
}

TEST_F(PlansOfKernels, LayoutsAndOffsetsOfTheCallCount) {
  EXPECT_EQ(plan_for(64, 4), "whole");
  EXPECT_EQ(plan_for(64, 3), "any");
  EXPECT_EQ(plan_for(64, 0, 2), "any");
}

TEST_F(PlansOfKernels, AForcedPlanRunsWhereItApplies) {
  EXPECT_EQ(set_forced_plan("whole"), "");
  EXPECT_EQ(plan_for(56), "whole") << "preferred or not";
  EXPECT_EQ(plan_for(57), "any");
  EXPECT_EQ(plan_for(9), "few");
  EXPECT_EQ(set_forced_plan("any"), "whole");
  EXPECT_EQ(plan_for(64), "any");
  set_forced_plan("another,few,whole");
  EXPECT_EQ(plan_for(8), "few") << "the first of the names";
  EXPECT_EQ(plan_for(64), "whole");
  set_forced_plan("whole,few");
  EXPECT_EQ(plan_for(8), "whole");
}

TEST_F(PlansOfKernels, TablesNamePlansWithTheirTunablesWhichRunWhereTheyApply) {
  tune(300);
  EXPECT_EQ(plan_for(56), "whole deep") << "a setting above 255";
  EXPECT_EQ(plan_for(57), "any") << "it can't serve this call";
  tune(kUntuned);
  EXPECT_EQ(plan_for(56), "any") << "measured, and the author's order was best";
  tune(0);
  EXPECT_EQ(plan_for(64), "any") << "the last plan by name";
  tune(1);
  set_forced_plan("any");
  EXPECT_EQ(plan_for(64), "any") << "what is forced comes first";
}

TEST_F(PlansOfKernels, TablesDecideNothingWhereTheEnvironmentSaysSo) {
  if (detail::environment().tables) GTEST_SKIP() << "runs in a process of its own with ASHLAR_TABLES=0";
  tune(300);
  EXPECT_EQ(plan_for(56), "any");
}

TEST_F(PlansOfKernels, AForcedSettingIsAPlanWithItsTunables) {
  set_forced_setting(300);
  EXPECT_EQ(plan_for(64), "whole deep");
  EXPECT_EQ(plan_for(63), "any");
  set_forced_setting(0);
  EXPECT_EQ(plan_for(64), "whole") << "the default is the author's order";
  set_forced_setting(7);
  EXPECT_EQ(plan_for(64), "whole") << "not compiled";
}

TEST_F(PlansOfKernels, ModelsChooseTheQuickestThatAppliesUnlessTheOrderIsAsked) {
  EXPECT_EQ(at_the_start, PlanChoice::model);
  EXPECT_EQ(set_plan_choice(PlanChoice::model), PlanChoice::order);
  EXPECT_EQ(plan_for(56), "whole") << "preferred or not";
  EXPECT_EQ(plan_for(8), "few") << "0.8 against more than 1";
  EXPECT_EQ(plan_for(57), "any");
  EXPECT_EQ(set_plan_choice(PlanChoice::order), PlanChoice::model);
  EXPECT_EQ(plan_for(56), "any");
}

TEST_F(PlansOfKernels, TheLogNamesPlanAndReason) {
  if (!detail::environment().log_dispatch) GTEST_SKIP() << "runs in a process of its own with ASHLAR_LOG=dispatch";
  static std::vector<std::string> lines;
  const auto before = detail::set_log_handler([](std::string_view line) { lines.emplace_back(line); });
  plan_for(640);
  plan_for(640);
  set_forced_plan("any");
  plan_for(640);
  set_forced_plan("");
  set_plan_choice(PlanChoice::model);
  plan_for(12);
  tune(300);
  plan_for(648);
  detail::set_log_handler(before);
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("dispatch: k"); });
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0],
            "dispatch: k_whole on cpu, elements 640, plan whole, default tunables (in the order of its plans; no table "
            "of this kernel)");
  EXPECT_EQ(
      lines[1],
      "dispatch: k_any on cpu, elements 640, plan any, default tunables (forced by name; no table of this kernel)");
  EXPECT_EQ(lines[2],
            "dispatch: k_few on cpu, elements 12, plan few, default tunables (by the model: 1.200000 us; no table of "
            "this kernel)");
  EXPECT_EQ(lines[3], "dispatch: k_deep on cpu, elements 648, plan whole, depth=4 (table of a device)");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostOfAChoice = 30;
#else
constexpr double kMostOfAChoice = 0.3;  // µs, beside an eager call's 4
#endif

// Other work shares the machine, so that the quickest of several rounds counts.
TEST_F(PlansOfKernels, AChoiceTakesLittleTime) {
  if (detail::environment().log_dispatch) GTEST_SKIP() << "logs";
  const std::vector<Tensor> x{Tensor::ones({640})}, y{Tensor::empty({640})};
  for (const PlanChoice choice : {PlanChoice::order, PlanChoice::model}) {
    set_plan_choice(choice);
    double best = 1e9;
    for (int round = 0; round < 20; ++round) {
      constexpr int kCalls = 1000;
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) {
        ASSERT_STREQ(detail::choose_instance(info(), KernelKey{}, Device::cpu(), x, y)->plan, "whole");
      }
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count() / kCalls);
    }
    std::printf("a choice %s takes %.3f us\n", choice == PlanChoice::order ? "by order" : "by the model", best);
    EXPECT_LE(best, kMostOfAChoice);
  }
}

/// An operator written by hand with three ways, and a table of this very device.
class PlansOfOperators : public ::testing::Test {
 protected:
  ~PlansOfOperators() override {
    set_forced_plan("");
    set_plan_choice(PlanChoice::order);
    set_plan_chooser(nullptr);
  }
  std::string chosen(const std::vector<Plan>& plans, const std::vector<int64_t>& sizes = {1, 1}) const {
    return plans[choose_plan(info_, Device::cpu(), plans, sizes)].name;
  }
  /// Calls of sizes that are as `sizes`, by half octaves, run the plan of that index.
  void tune(const std::vector<int64_t>& sizes, uint8_t plan) {
    classes_ = half_octaves(sizes);
    plan_ = plan;
    const detail::DeviceIdentity& here = detail::device_identity(Device::cpu());
    tuned_ = {here.name_hash, here.family_hash, "a device", 1, &classes_, &plan_};
    table_.tuned_plans = &tuned_;
    table_.tuned_plans_count = 1;
  }
  void of_another_device(bool is_like_it) {
    tuned_.device++;
    if (!is_like_it) tuned_.family++;
  }

 private:
  static constexpr const char* kPlans[] = {"radix", "blocks", "merge"};
  static constexpr const char* kSizes[] = {"rows", "columns"};
  static constexpr FormSignature kSignature{
      .name = "sort", .type = "", .header = "", .plans = kPlans, .plan_sizes = kSizes};
  static constexpr Form kForm{kSignature, nullptr, nullptr, nullptr, nullptr, nullptr};
  uint64_t classes_ = 0;
  uint8_t plan_ = 0;
  TunedPlans tuned_{};
  TargetTable table_{};
  const KernelInfo info_{kTablesVersion, "sort", "", &kForm, {}, {}, 1, nullptr, nullptr, {&table_, &table_, &table_}};
};

TEST_F(PlansOfOperators, AreChosenLikeKernels) {
  const Plan radix{"radix", true, false, 3}, blocks{"blocks", false, true, 1}, merge{"merge", true, true, 5};
  EXPECT_EQ(chosen({radix, blocks, merge}), "merge") << "radix isn't preferred, blocks don't apply";
  set_plan_choice(PlanChoice::model);
  EXPECT_EQ(chosen({radix, blocks, merge}), "radix") << "blocks don't apply";
  EXPECT_EQ(chosen({{"radix"}, {"blocks"}}), "radix") << "without a model by order";
  set_plan_choice(PlanChoice::order);
  set_forced_plan("blocks,radix");
  EXPECT_EQ(chosen({radix, blocks, merge}), "radix");
  set_forced_plan("");
  EXPECT_THROW(chosen({blocks}), KernelError);
}

TEST_F(PlansOfOperators, ATableDecidesAtTheSizesThatWereMeasured) {
  const Plan radix{"radix"}, blocks{"blocks"}, merge{"merge", true, true, 5}, no_merge{"merge", false};
  tune({64, 1000}, 2);
  EXPECT_EQ(chosen({radix, blocks, merge}, {64, 1000}), "merge");
  EXPECT_EQ(chosen({radix, blocks, merge}, {54, 1100}), "merge") << "within a quarter of an octave";
  EXPECT_EQ(chosen({radix, blocks, merge}, {53, 1000}), "radix");
  EXPECT_EQ(chosen({radix, blocks, merge}, {1000, 64}), "radix") << "which size is which counts";
  EXPECT_EQ(chosen({radix, blocks, no_merge}, {64, 1000}), "radix") << "a plan that doesn't apply";
  EXPECT_EQ(chosen({radix, blocks}, {64, 1000}), "radix") << "another choice of the same operator";
  set_plan_choice(PlanChoice::model);
  EXPECT_EQ(chosen({{"radix", true, true, 1}, merge}, {64, 1000}), "merge") << "before any model";
  set_plan_choice(PlanChoice::order);
  set_forced_plan("blocks");
  EXPECT_EQ(chosen({radix, blocks, merge}, {64, 1000}), "blocks") << "what is forced comes first";
  set_forced_plan("");
  of_another_device(true);
  EXPECT_EQ(chosen({radix, blocks, merge}, {64, 1000}), "merge") << "a device of the same family";
  of_another_device(false);
  EXPECT_EQ(chosen({radix, blocks, merge}, {64, 1000}), "radix");
}

TEST_F(PlansOfOperators, AChooserComesBeforeEverything) {
  static std::vector<int64_t> seen;
  set_plan_chooser([](const KernelInfo&, std::span<const Plan> plans, std::span<const int64_t> sizes) {
    seen.assign(sizes.begin(), sizes.end());
    return plans.size() == 3 ? std::optional<size_t>(1) : std::nullopt;
  });
  set_forced_plan("merge");
  EXPECT_EQ(chosen({{"radix"}, {"blocks"}, {"merge"}}, {3, 4}), "blocks");
  EXPECT_EQ(seen, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(chosen({{"radix"}, {"merge"}}), "merge");
}

TEST_F(PlansOfOperators, AChooserMayLeaveTablesOut) {
  tune({3, 4}, 2);
  const std::vector<Plan> plans{{"radix"}, {"blocks"}, {"merge"}};
  EXPECT_EQ(chosen(plans, {3, 4}), "merge");
  set_plan_chooser([](const KernelInfo&, std::span<const Plan>, std::span<const int64_t>) {
    return std::optional<size_t>(kWithoutTables);
  });
  EXPECT_EQ(chosen(plans, {3, 4}), "radix");
  set_forced_plan("blocks");
  EXPECT_EQ(chosen(plans, {3, 4}), "blocks") << "what is forced is no table";
}

TEST_F(PlansOfOperators, TablesDecideNothingWhereTheEnvironmentSaysSo) {
  if (detail::environment().tables) GTEST_SKIP() << "runs in a process of its own with ASHLAR_TABLES=0";
  tune({3, 4}, 2);
  EXPECT_EQ(chosen({{"radix"}, {"blocks"}, {"merge"}}, {3, 4}), "radix");
}

TEST(DeviceIdentity, OfACpuCountsThreads) {
  const int threads = detail::environment().threads;
  const std::string count = ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  const detail::DeviceIdentity& here = detail::device_identity(Device::cpu());
  EXPECT_EQ(here.name, Device::cpu().description() + count);
  EXPECT_EQ(here.family, "x86-64" + count);
}

TEST(HalfOctaves, RoundEachSize) {
  const auto of = [](std::vector<int64_t> sizes) { return half_octaves(sizes); };
  EXPECT_EQ(of({1, 1}), 0u);
  EXPECT_EQ(of({2}), 2u);
  EXPECT_EQ(of({3}), 3u) << "2 log₂ 3 = 3.17";
  EXPECT_EQ(of({54}), of({64}));
  EXPECT_EQ(of({76}), of({64}));
  EXPECT_NE(of({53}), of({64}));
  EXPECT_NE(of({77}), of({64}));
  EXPECT_EQ(of({1, 2147483647}), uint64_t{62} << 8);
  EXPECT_EQ(of({0}), 0u);
}

}  // namespace
}  // namespace ashlar::testing

// Which setting of a kernel's tunables a call gets: by this device's table, by one of its like, by sizes, by force.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "runtime/cpu/cpu_device.h"
#include "runtime/device/device_identity.h"
#include "runtime/forms/library.h"
#include "runtime/launch/dispatch.h"
#include "runtime/support/environment.h"
#include "tests/runtime/host_kernel.h"

namespace ashlar::testing {
namespace {

int last_run = -1;
template <int setting>
int marked(void** arguments) {
  last_run = setting;
  return scale_kernel(arguments);
}

// Elements of classes 9 … 12 (363 … 5792 elements): settings 0, 1, 1, 2.
constexpr uint16_t kSettings[] = {0, 1, 1, 2};

class Dispatch : public ::testing::Test {
 protected:
  static TunedGrid grid(std::string_view device, std::string_view family, const uint16_t* settings = kSettings) {
    return {KernelKey{}.packed(), identity_hash(device), identity_hash(family), "a device", {9}, {4}, settings};
  }
  /// Runs the kernel on `elements` elements and returns the setting that ran.
  int setting_for(std::vector<TunedGrid> grids, int64_t elements) {
    table_.grids = grids.data();
    table_.grid_count = static_cast<int>(grids.size());
    const Tensor x = Tensor::ones({elements}), y = Tensor::empty({elements});
    last_run = -1;
    detail::forget_known_calls();
    launch(info_, KernelKey{}, std::array{x}, std::array{Scalar(3.0)}, std::array{y});
    EXPECT_EQ(y.to_vector<float>().back(), 3);
    return last_run;
  }
  const detail::DeviceIdentity& here_ = detail::device_identity(Device::cpu());

 private:
  const KernelInstance instances_[3] = {{KernelKey{}.packed(), marked<0>, "k"},
                                        {with_setting(KernelKey{}.packed(), 1), marked<1>, "k_1", "tile=64"},
                                        {with_setting(KernelKey{}.packed(), 2), marked<2>, "k_2", "tile=128"}};
  TargetTable table_{instances_, 3};
  const KernelInfo info_{kTablesVersion, "k",     "",       &form_of<forms::Plain>, kScaleArguments, {}, 1,
                         nullptr,        nullptr, {&table_}};
};

// Which code of the CPU's three runs where the kernel has the first `count` of them; 0 is the baseline's.
int cpu_code_for(int count) {
  static const KernelInstance instances[3] = {{KernelKey{}.packed(), marked<0>, "baseline"},
                                              {KernelKey{}.packed(), marked<1>, "avx2"},
                                              {KernelKey{}.packed(), marked<2>, "avx512"}};
  const TargetTable tables[3] = {{instances, 1}, {instances + 1, count > 1}, {instances + 2, count > 2}};
  const KernelInfo info{kTablesVersion,
                        "k",
                        "",
                        &form_of<forms::Plain>,
                        kScaleArguments,
                        {},
                        1,
                        nullptr,
                        nullptr,
                        {tables, tables + 1, tables + 2}};
  const Tensor x = Tensor::ones({8}), y = Tensor::empty({8});
  detail::forget_known_calls();
  launch(info, KernelKey{}, std::array{x}, std::array{Scalar(3.0)}, std::array{y});
  return last_run;
}

// Run with each ASHLAR_CPU.
TEST(CpuCode, IsTheWidestThatRunsHereAndIsCompiled) {
  const int widest = static_cast<int>(detail::cpu_code_target());
  for (int count = 1; count <= 3; ++count) EXPECT_EQ(cpu_code_for(count), std::min(widest, count - 1));
  const std::string& limit = detail::environment().cpu;
  EXPECT_LE(widest, limit == "baseline" ? 0 : limit == "avx2" ? 1 : 2);
}

TEST(CpuCode, CanBeMadeNarrowerAndNoWiderThanRunsHere) {
  const CodeTarget widest = detail::cpu_code_target();
  for (const CodeTarget code : {CodeTarget::cpu, CodeTarget::cpu_avx2, CodeTarget::cpu_avx512}) {
    detail::set_cpu_code_target(code);
    EXPECT_EQ(detail::cpu_code_target(), std::min(code, widest));
    EXPECT_EQ(cpu_code_for(3), static_cast<int>(std::min(code, widest)));
  }
  EXPECT_EQ(detail::set_cpu_code_target(widest), widest);
}

TEST_F(Dispatch, SizesPickTheSetting) {
  const std::vector<TunedGrid> grids{grid(here_.name, here_.family)};
  EXPECT_EQ(setting_for(grids, 512), 0);
  EXPECT_EQ(setting_for(grids, 724), 0) << "rounds down to 2^9";
  EXPECT_EQ(setting_for(grids, 725), 1) << "rounds up to 2^10";
  EXPECT_EQ(setting_for(grids, 4096), 2);
}

TEST_F(Dispatch, SizesBeyondTheGridCountAsItsLargestAndThoseBelowGetTheDefault) {
  const std::vector<TunedGrid> grids{grid(here_.name, here_.family)};
  EXPECT_EQ(setting_for(grids, 100000), 2);
  EXPECT_EQ(setting_for(grids, 1), 0);
  static constexpr uint16_t all_ones[] = {1, 1, 1, 1};
  EXPECT_EQ(setting_for({grid(here_.name, here_.family, all_ones)}, 361), 0) << "class 8, below the box";
  EXPECT_EQ(setting_for({grid(here_.name, here_.family, all_ones)}, 512), 1);
}

TEST_F(Dispatch, ThisDeviceComesBeforeItsLikeAndStrangersDontCount) {
  static constexpr uint16_t twos[] = {2, 2, 2, 2};
  EXPECT_EQ(setting_for({grid("another", here_.family, twos), grid(here_.name, here_.family)}, 1024), 1);
  EXPECT_EQ(setting_for({grid("another", here_.family, twos)}, 1024), 2);
  EXPECT_EQ(setting_for({grid("another", "another family", twos)}, 1024), 0);
  EXPECT_EQ(setting_for({}, 1024), 0);
}

TEST_F(Dispatch, AForcedSettingWinsWhereItIsCompiled) {
  const std::vector<TunedGrid> grids{grid(here_.name, here_.family)};
  EXPECT_EQ(set_forced_setting(2), -1);
  EXPECT_EQ(setting_for(grids, 512), 2);
  set_forced_setting(7);
  EXPECT_EQ(setting_for(grids, 1024), 0) << "not compiled: the default";
  set_forced_setting(0);
  EXPECT_EQ(setting_for(grids, 4096), 0);
  EXPECT_EQ(set_forced_setting(-1), 0);
  EXPECT_EQ(setting_for(grids, 4096), 2);
}

TEST_F(Dispatch, AReplacementRunsWhereASettingIsForced) {
  const Replacement other{"another kernel", KernelKey{}.packed(), {KernelKey{}.packed(), marked<5>, "r", "r"}};
  const Replacement replacement{"k", KernelKey{}.packed(), {KernelKey{}.packed(), marked<6>, "r", "r"}};
  set_replacement(&other);
  set_forced_setting(0);
  EXPECT_EQ(setting_for({}, 64), 0);
  set_replacement(&replacement);
  EXPECT_EQ(setting_for({}, 64), 6);
  set_forced_setting(-1);
  EXPECT_EQ(setting_for({}, 64), 0) << "nothing is forced";
  set_replacement(nullptr);
}

TEST_F(Dispatch, TheLogSaysOnceWhatWasChosenAndWhy) {
  if (!detail::environment().log_dispatch) GTEST_SKIP() << "runs in a process of its own with ASHLAR_LOG=dispatch";
  static std::vector<std::string> lines;
  const auto before = detail::set_log_handler([](std::string_view line) { lines.emplace_back(line); });
  const std::vector<TunedGrid> grids{grid(here_.name, here_.family)};
  setting_for(grids, 2000);  // no other test calls it with so many
  setting_for(grids, 2000);
  setting_for({}, 2000);
  static constexpr uint16_t none_near[] = {kNoneNear, 0, 0, 0};
  EXPECT_EQ(setting_for({grid(here_.name, here_.family, none_near)}, 2001), 0);
  EXPECT_EQ(setting_for({grid(here_.name, here_.family, none_near)}, 501), 0) << "a hole of the grid";
  EXPECT_EQ(setting_for(grids, 11), 0) << "below the grid";
  detail::set_log_handler(before);
  std::erase_if(lines, [](const std::string& line) { return !line.starts_with("dispatch: k"); });
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "dispatch: k_1 on cpu, elements 2000, tile=64 (table of a device)");
  EXPECT_EQ(lines[1], "dispatch: k on cpu, elements 2000, default tunables (no table of this kernel)");
  EXPECT_EQ(lines[2], "dispatch: k on cpu, elements 2001, default tunables (table of a device)");
  EXPECT_EQ(lines[3],
            "dispatch: k on cpu, elements 501, default tunables (no measured size is near, in the table of a device)");
  EXPECT_EQ(lines[4],
            "dispatch: k on cpu, elements 11, default tunables (no measured size is near, in the table of a device)");
}

TEST(CanonicalSizes, FollowTheForm) {
  const std::vector<Tensor> a{Tensor::empty({2, 3, 5}), Tensor::empty({2, 5, 7})}, y{Tensor::empty({2, 3, 7})};
  using Sizes = std::array<int64_t, kMostSizes>;
  EXPECT_EQ(forms::Contraction::sizes(a, y), (Sizes{2, 3, 7, 5}));
  EXPECT_EQ(forms::Reduction::sizes(a, y), (Sizes{2, 3, 5, 1}));
  EXPECT_EQ(forms::Pointwise::sizes(a, y), (Sizes{42, 1, 1, 1}));
  EXPECT_EQ(forms::Rows::sizes(std::vector{Tensor::empty({4, 9})}, y), (Sizes{4, 9, 1, 1}));
  EXPECT_EQ(Form::contraction.size_count(), 4);
  EXPECT_EQ(Form::rows.size_count(), 2);
}

TEST(SizeClass, IsTheRoundedLogarithm) {
  EXPECT_EQ(size_class(0), 0);
  EXPECT_EQ(size_class(1), 0);
  EXPECT_EQ(size_class(2), 1);
  EXPECT_EQ(size_class(3), 2);
  EXPECT_EQ(size_class(1000), 10);
  EXPECT_EQ(size_class(INT32_MAX), 31);
}

}  // namespace
}  // namespace ashlar::testing

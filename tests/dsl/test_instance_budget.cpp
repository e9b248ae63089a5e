// Prints how many functions each kernel was compiled into, and fails above the library's budget.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "runtime/all.h"

namespace ashlar {
namespace {

// Per code target. A new kernel may raise it; a kernel that grew by itself may not.
constexpr int kBudget = 772;
// Beside them, what the tuned tables of schedules/tuned/ add. Tables that grow beyond it share too few settings.
constexpr int kTunedBudget = 100;

TEST(Instances, StayWithinTheBudget) {
  for (int target = 0; target < kCodeTargets; target++) {
    int total = 0, tuned = 0;
    for (const KernelInfo* kernel : all_kernels()) {
      if (kernel->targets[target] == nullptr) continue;  // it is for the CPU alone
      const TargetTable& table = *kernel->targets[target];
      int count = 0, plans = 0;
      for (int i = 0; i < table.count; i++) {
        const KernelInstance& instance = table.instances[i];
        const bool is_other_plan = instance.setting() != 0 && *instance.plan && !*instance.tunables;
        count += instance.setting() == 0;
        plans += is_other_plan;
        tuned += instance.setting() != 0 && !is_other_plan;
      }
      std::printf("%-10s %-24s %3d, other plans %3d\n", kCodeTargetNames[target], kernel->name, count, plans);
      total += count;
    }
    std::printf("%-10s %-24s %3d, tuned %d\n", kCodeTargetNames[target], "total", total, tuned);
    EXPECT_LE(total, kBudget) << kCodeTargetNames[target];
    EXPECT_LE(tuned, kTunedBudget) << kCodeTargetNames[target];
  }
}

}  // namespace
}  // namespace ashlar

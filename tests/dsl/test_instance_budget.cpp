// Prints how many functions each kernel was compiled into, and fails above the library's budget.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "runtime/all.h"

namespace ashlar {
namespace {

// Per code target. A new kernel may raise it; a kernel that grew by itself may not.
constexpr int kBudget = 480;
// Beside them, what the tuned tables of schedules/tuned/ add. Tables that grow beyond it share too few settings.
constexpr int kTunedBudget = 100;

TEST(Instances, StayWithinTheBudget) {
  for (int target = 0; target < kCodeTargets; target++) {
    int total = 0, tuned = 0;
    for (const KernelInfo* kernel : all_kernels()) {
      const TargetTable& table = *kernel->targets[target];
      int count = 0;
      for (int i = 0; i < table.count; i++) count += table.instances[i].setting() == 0;
      tuned += table.count - count;
      std::printf("%-10s %-24s %3d\n", kCodeTargetNames[target], kernel->name, count);
      total += count;
    }
    std::printf("%-10s %-24s %3d, tuned %d\n", kCodeTargetNames[target], "total", total, tuned);
    EXPECT_LE(total, kBudget) << kCodeTargetNames[target];
    EXPECT_LE(tuned, kTunedBudget) << kCodeTargetNames[target];
  }
}

}  // namespace
}  // namespace ashlar

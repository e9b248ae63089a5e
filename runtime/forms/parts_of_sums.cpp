#include "runtime/forms/parts_of_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "runtime/launch/plans.h"
#include "runtime/support/environment.h"

namespace ashlar::forms {
namespace {

constexpr int64_t kLeastLength = 64, kMostParts = 128, kAligned = 4;

int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Parts of equal lengths where so many or a few less divide k, so that no shorter one is left; aligned as k is. Else
/// as short a one as can be, which costs a kernel of its own behind the others.
int64_t length_for(int64_t parts, int64_t k) {
  const int64_t unit = k % kAligned == 0 ? kAligned : 1;
  for (int64_t fewer = parts; fewer > 1 && 4 * fewer >= 3 * parts; --fewer) {
    if (k % (fewer * unit) == 0) return k / fewer;
  }
  return k / parts / kAligned * kAligned;
}

// In microseconds, fitted to an H200 as schedules/contraction_model.h is. A multiprocessor takes as long for one block
// of 32 × 32 results as for two, each at least so long for 64 terms; the start of a kernel and the sum of the parts
// come on top. A part that is left over is one more kernel, behind the others.
struct GpuModel {
  static constexpr double kStart = 1.5, kBlock = 0.85, kStageTerms = 64, kBlocksAtWork = 2;
  double multiprocessors, gigabytes_per_second, stage;

  double product(int64_t blocks, int64_t terms) const {
    const double rounds = std::ceil(static_cast<double>(blocks) / (kBlocksAtWork * multiprocessors));
    return kStart + rounds * (kBlock + stage * std::ceil(static_cast<double>(terms) / kStageTerms));
  }
  double in_parts(int64_t blocks, int64_t results, int64_t k, int64_t length) const {
    const int64_t whole = k / length, rest = k % length;
    const double bytes = 4.0 * static_cast<double>(results) * static_cast<double>(2 * whole + 1);
    return product(blocks * whole, length) + (rest > 0 ? product(blocks, rest) : 0) + kStart +
           bytes / (1e3 * gigabytes_per_second);
  }
};

/// Of 64 terms. CUDA has plans of their own for few rows and operands that lie along k.
double stage_of(int64_t m, bool along_k, Device device) {
  if (!along_k || device.kind != DeviceKind::cuda || m > 64) return 0.75;
  return m == 1 ? 0.022 : m <= 8 ? 0.088 : 0.33;
}

}  // namespace

PartsOfSums parts_of_sums(const char* kernel, int64_t m, int64_t n, int64_t k, bool along_k, Device device,
                          const std::function<double()>& own_plans) {
  if (k < 2 * kLeastLength) return {};
  if (detail::any_plan_forced() && detail::forced_rank("split_k") < 0) return {};  // the product's own plan is meant
  Plan split{"split_k"}, whole{"at_once"};
  int64_t length = 0;
  const int64_t most = std::min(kMostParts, k / kLeastLength);
  if (device.kind == DeviceKind::cpu) {
    constexpr int64_t kParts = 8, kFewResults = 1024, kManyTerms = 8192, kRowsOfOtherPlans = 8;
    length = length_for(std::min(kParts, most), k);
    split.preferred = m > kRowsOfOtherPlans && m * n <= kFewResults && k >= kManyTerms;
  } else {
    constexpr int64_t kTile = 32;
    const double* numbers = detail::plan_device_numbers(device);
    const GpuModel model{numbers[static_cast<size_t>(PlanDevice::multiprocessors)],
                         numbers[static_cast<size_t>(PlanDevice::gigabytes_per_second)], stage_of(m, along_k, device)};
    const int64_t blocks = over(m, kTile) * over(n, kTile);
    const auto fill = static_cast<int64_t>(GpuModel::kBlocksAtWork * model.multiprocessors) / blocks;
    length = length_for(std::clamp<int64_t>(fill, 2, most), k);
    split.microseconds = model.in_parts(blocks, m * n, k, length);
    whole.microseconds = model.product(blocks, k);
    if (split.microseconds < whole.microseconds) {
      const double own = own_plans();  // which takes a while: asked where it matters
      if (own >= 0) whole.microseconds = std::min(whole.microseconds, own);
    }
    split.preferred = split.microseconds < whole.microseconds;
  }
  std::string call;
  if (detail::environment().log_dispatch) [[unlikely]]
    call = "m " + std::to_string(m) + ", n " + std::to_string(n) + ", k " + std::to_string(k);
  const std::array plans{split, whole};
  if (choose_plan(kernel, device, plans, call) != 0) return {};
  return {length, split.microseconds};
}

}  // namespace ashlar::forms

#include "runtime/forms/parts_of_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "runtime/launch/kernel_start.h"
#include "runtime/launch/plans.h"
#include "runtime/support/environment.h"
#include "runtime/support/recent.h"
#include "runtime/support/rounding.h"

namespace ashlar::forms {
namespace {

using detail::over;

constexpr int64_t kLeastLength = kLeastTermsOfParts / 2, kMostParts = 128, kAligned = 4;

/// Parts of equal lengths where so many or a few less divide k, so that no shorter one is left; aligned as k is. Else
/// as short a one as can be, which costs a kernel of its own behind the others.
int64_t length_for(int64_t parts, int64_t k) {
  const int64_t unit = k % kAligned == 0 ? kAligned : 1;
  for (int64_t fewer = parts; fewer > 1 && 4 * fewer >= 3 * parts; --fewer) {
    if (k % (fewer * unit) == 0) return k / fewer;
  }
  return k / parts / kAligned * kAligned;
}

/// Two loads a term, half as many as an H200's multiprocessors begin.
double rest_in_sum(int64_t results, int64_t rest) {
  constexpr double kTerm = 6e-7;
  return kTerm * static_cast<double>(results * rest);
}

// In microseconds, where the plans have no model, and for short sides. A multiprocessor takes as long for one block of
// 32 × 32 results as for two, each at least so long for 64 terms; the start of a kernel and the sum of the parts come
// on top. A part that is left over is one more kernel, behind the others.
struct GpuModel {
  static constexpr double kBlock = 0.85, kStageTerms = 64, kBlocksAtWork = 2;
  double multiprocessors, gigabytes_per_second, start, stage;

  double product(int64_t blocks, int64_t terms) const {
    const double rounds = std::ceil(static_cast<double>(blocks) / (kBlocksAtWork * multiprocessors));
    return start + rounds * (kBlock + stage * std::ceil(static_cast<double>(terms) / kStageTerms));
  }
  /// Moving so many elements, of which little is hidden behind work.
  double moving(int64_t elements) const { return 4.0 * static_cast<double>(elements) / (1e3 * gigabytes_per_second); }
  double in_parts(int64_t blocks, int64_t results, int64_t k, int64_t length) const {
    const int64_t whole = k / length, rest = k % length;
    const bool in_sum = is_rest_in_sum(results, rest, Device::cuda());  // of any GPU
    return product(blocks * whole, length) + (rest > 0 && !in_sum ? product(blocks, rest) : 0) + start +
           moving(results * (2 * whole + 1)) + (in_sum ? rest_in_sum(results, rest) : 0);
  }
};

/// Of 64 terms. CUDA has plans of their own for few rows and operands that lie along k, in aligned quads.
double stage_of(int64_t m, bool along_k, Device device) {
  return along_k && device.kind == DeviceKind::cuda && m <= 64 ? 0.33 : 0.75;
}

struct Choice {
  int64_t length = 0;
  double in_parts = -1, at_once = -1;  ///< microseconds; less than 0: not known
  double by_plans = -1;                ///< at once, by the plans' model alone
};

// Of a number of lengths the quickest by t = model(parts, length) + model(1, rest) + the sum of all parts, by which the
// rest may be computed, too.
Choice by_plans(int64_t k, std::span<const int64_t> lengths, const auto& sum_of, const auto& is_in_sum,
                const PartsModel& model) {
  Choice best;
  best.at_once = best.by_plans = model(1, k);
  if (best.at_once < 0) return best;
  for (const int64_t length : lengths) {
    const int64_t whole = k / length, rest = k % length;
    double all = sum_of(whole, rest) + model(whole, length);
    if (rest > 0 && !is_in_sum(rest) && (best.length == 0 || all < best.in_parts)) all += model(1, rest);
    if (best.length != 0 && all >= best.in_parts) continue;
    best.length = length;
    best.in_parts = all;
  }
  return best;
}

// Lengths in multiples of 32 suit every plan; those of four leave the least.
std::vector<int64_t> lengths_on_gpu(int64_t m, int64_t n, int64_t k, int64_t least) {
  constexpr std::array<int64_t, 13> kParts{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
  constexpr std::array<int64_t, 2> kUnits{32, 4};
  constexpr int64_t kMostSums = 1 << 25;  // 128 MB
  std::vector<int64_t> lengths;
  for (const int64_t wanted : kParts) {
    for (const int64_t unit : kUnits) {
      const int64_t length = k / wanted / unit * unit;
      if (length < least || (!lengths.empty() && length == lengths.back())) continue;
      if (over(k, length) > kMostSums / (m * n)) return lengths;
      lengths.push_back(length);
    }
  }
  return lengths;
}

// The sum is a kernel's start, a little for each part and the bytes that it reads and writes: fitted to an H200 at 341
// products, median error 9 %.
Choice by_plans_on_gpu(int64_t m, int64_t n, int64_t k, int64_t least, double gigabytes_per_second, double start,
                       const PartsModel& model) {
  constexpr double kPart = 0.02, kOfBytes = 1.86;
  const auto is_in_sum = [&](int64_t rest) { return is_rest_in_sum(m * n, rest, Device::cuda()); };  // of any GPU
  const auto sum_of = [&](int64_t whole, int64_t rest) {
    const bool in_sum = is_in_sum(rest);
    const auto parts = static_cast<double>(whole + (rest > 0 && !in_sum ? 1 : 0));
    const double bytes = 4.0 * static_cast<double>(m * n) * (parts + 1);
    return start + kPart * parts + kOfBytes * bytes / (1e3 * gigabytes_per_second) +
           (in_sum ? rest_in_sum(m * n, rest) : 0);
  };
  return by_plans(k, lengths_on_gpu(m, n, k, least), sum_of, is_in_sum, model);
}

Choice by_multiprocessors(int64_t m, int64_t n, int64_t k, const GpuModel& model) {
  constexpr int64_t kTile = 32;
  const int64_t blocks = over(m, kTile) * over(n, kTile), most = std::min(kMostParts, k / kLeastLength);
  const auto fill = static_cast<int64_t>(GpuModel::kBlocksAtWork * model.multiprocessors) / blocks;
  const int64_t length = length_for(std::clamp<int64_t>(fill, 2, most), k);
  const double operands = model.moving(k * (m + n));
  return {length, model.in_parts(blocks, m * n, k, length) + operands, model.product(blocks, k) + operands};
}

// Two threads share one product out worse than several: the model knows. The sum of the parts is a launch, and some
// bytes that lie in caches.
Choice on_cpu(int64_t m, int64_t n, int64_t k, const PartsModel& model) {
  constexpr double kSum = 1.5, kGigabytesPerSecond = 20;
  std::vector<int64_t> lengths;
  for (const int64_t parts : {2, 4, 8}) {
    if (k / parts >= kLeastLength) lengths.push_back(length_for(parts, k));
  }
  const auto sum_of = [&](int64_t whole, int64_t) {
    return kSum + 4.0 * static_cast<double>(m * n * (2 * whole + 1)) / (1e3 * kGigabytesPerSecond);
  };
  Choice choice = by_plans(
      k, lengths, sum_of, [](int64_t) { return false; }, model);
  if (choice.at_once < 0) choice.length = lengths.front();  // for who asks for it by name
  return choice;
}

/// By plans where their model says something. Beside a short side those are plans of threads, whose model was fitted to
/// single products and says too little of parts (0.985 of the speed by multiprocessors); but CUDA's plans for a few
/// rows or columns, beside a matrix that is read once, go by the model.
Choice on_gpu(int64_t m, int64_t n, int64_t k, const PartsLayout& layout, Device device, const PartsModel& model) {
  constexpr int64_t kShortSide = 16, kLeastOfRow = 256;
  const double speed = detail::plan_device_number(device, PlanDevice::gigabytes_per_second),
               start = kernel_start(device.kind);
  const bool is_few = layout.is_few && k >= 2 * kLeastOfRow && device.kind == DeviceKind::cuda;
  if (is_few || std::min(m, n) >= kShortSide) {
    const Choice choice = by_plans_on_gpu(m, n, k, is_few ? kLeastOfRow : kLeastLength, speed, start, model);
    if (choice.at_once >= 0) return choice;
  }
  Choice choice = by_multiprocessors(m, n, k,
                                     {detail::plan_device_number(device, PlanDevice::multiprocessors), speed, start,
                                      stage_of(m, layout.along_k, device)});
  choice.by_plans = model(1, k);
  if (choice.by_plans >= 0) choice.at_once = std::min(choice.at_once, choice.by_plans);
  return choice;
}

/// Worked out once for calls that are alike: the plans' model is asked some 20 times.
Choice choice_of(int64_t m, int64_t n, int64_t k, const PartsLayout& layout, Device device, const PartsModel& model) {
  constexpr size_t kMostNumbers = 16;
  thread_local detail::Recent<Choice, kMostNumbers> known;
  std::array<int64_t, kMostNumbers> key{m, n, k, static_cast<int64_t>(device.kind), device.index, layout.along_k};
  constexpr size_t kOthers = 6;
  std::ranges::copy(layout.numbers, key.begin() + kOthers);
  return known.get(std::span(key).first(kOthers + layout.numbers.size()), [&] {
    return device.kind == DeviceKind::cpu ? on_cpu(m, n, k, model) : on_gpu(m, n, k, layout, device, model);
  });
}

}  // namespace

PartsOfSums parts_of_sums(const KernelInfo& kernel, int64_t m, int64_t n, int64_t k, const PartsLayout& layout,
                          Device device, const PartsModel& model) {
  if (k < kLeastTermsOfParts) return {};
  if (detail::any_plan_forced() && detail::forced_rank("split_k") < 0) return {};  // the product's own plan is meant
  const Choice choice = choice_of(m, n, k, layout, device, model);
  if (choice.length == 0) return {0, choice.by_plans};
  const Plan split{.name = "split_k", .preferred = choice.in_parts < choice.at_once, .microseconds = choice.in_parts};
  const Plan whole{.name = "at_once", .microseconds = choice.at_once};
  const std::array plans{split, whole};
  const std::array sizes{m, n, k};
  if (choose_plan(kernel, device, plans, sizes) != 0) return {0, choice.by_plans};
  return {choice.length, choice.in_parts};
}

}  // namespace ashlar::forms

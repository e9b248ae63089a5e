// Fault injection: makes the n-th allocation or the n-th driver call fail, so that tests can walk every error path.
#pragma once

#include <atomic>
#include <cstdint>

namespace ashlar::detail {

/// Where a fault can be planted.
enum class FaultSite : uint8_t {
  allocation,   ///< a block asked of a memory pool, or scratch memory asked by a CPU kernel
  driver_call,  ///< a call of the CUDA or OpenCL driver that can fail, by us or by Halide's runtime
};
inline constexpr int kFaultSites = 2;

namespace fault {

/// Remaining visits until the fault fires, as planted; 0 is off, kAlways is every visit. Visits by all threads count.
inline std::atomic<int64_t> countdown[kFaultSites] = {};
inline constexpr int64_t kAlways = -1;
/// What follows the visit that fires: 0 or kAlways.
inline std::atomic<int64_t> afterwards[kFaultSites] = {};

/// The rest of strikes(), while a fault is planted.
inline bool strikes_now(int site) noexcept {
  int64_t remaining = countdown[site].load(std::memory_order_acquire);
  while (remaining > 0) {
    const int64_t next = remaining == 1 ? afterwards[site].load(std::memory_order_relaxed) : remaining - 1;
    if (countdown[site].compare_exchange_weak(remaining, next, std::memory_order_acq_rel)) return remaining == 1;
  }
  return remaining == kAlways;
}

/// One visit to a site; true when this one is to fail. One relaxed load while no fault is planted.
inline bool strikes(FaultSite site) noexcept {
  if (countdown[static_cast<int>(site)].load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  return strikes_now(static_cast<int>(site));
}

}  // namespace fault

/// How long a planted fault lasts.
enum class FaultSpan : uint8_t { once, from_then_on };

/// Plants one fault for a scope: the n-th visit from now on, counted from 1, or that one and all after it.
class FaultScope {
 public:
  FaultScope(FaultSite site, int64_t n, FaultSpan span = FaultSpan::once) : site_(static_cast<int>(site)) {
    fault::afterwards[site_] = span == FaultSpan::once ? 0 : fault::kAlways;
    fault::countdown[site_] = n;
  }
  ~FaultScope() { fault::countdown[site_] = 0; }
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;

  /// Whether the n-th visit has happened.
  bool fired() const { return fault::countdown[site_].load() <= 0; }

 private:
  int site_;
};

}  // namespace ashlar::detail

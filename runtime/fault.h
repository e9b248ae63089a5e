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

/// Remaining visits until the fault fires: 0 is off. Visits by all threads count.
inline std::atomic<int64_t> countdown[kFaultSites] = {};

/// One visit to a site; true when this one is to fail. Fires once. One relaxed load while no fault is planted.
inline bool strikes(FaultSite site) noexcept {
  std::atomic<int64_t>& remaining = countdown[static_cast<int>(site)];
  if (remaining.load(std::memory_order_relaxed) <= 0) [[likely]]
    return false;
  return remaining.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

}  // namespace fault

/// Plants one fault for a scope: the n-th visit from now on, counted from 1.
class FaultScope {
 public:
  FaultScope(FaultSite site, int64_t n) : site_(site) { fault::countdown[static_cast<int>(site)] = n; }
  ~FaultScope() { fault::countdown[static_cast<int>(site_)] = 0; }
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;

  /// Whether the n-th visit has happened.
  bool fired() const { return fault::countdown[static_cast<int>(site_)].load() <= 0; }

 private:
  FaultSite site_;
};

}  // namespace ashlar::detail

// What the runtime did, always counted, so that a test can assert "this step copied 0 bytes".
#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace ashlar {

/// Totals of one kind of device since the process started. Subtract two readings to get a span.
struct Counters {
  int64_t launches = 0;         ///< kernel calls (on a GPU: driver launches)
  int64_t bytes_to_device = 0;  ///< host → device
  int64_t bytes_to_host = 0;    ///< device → host
  int64_t bytes_on_device = 0;  ///< device → device copies through the driver
  int64_t allocations = 0;      ///< memory asked of the driver or the system
  int64_t pool_hits = 0;        ///< allocations answered by the pool
  int64_t pool_bytes = 0;       ///< bytes the pool holds now, used or free
  int64_t live_bytes = 0;       ///< bytes in use by tensors now
  int64_t modules_loaded = 0;   ///< GPU modules or programs built
  int64_t cache_hits = 0;       ///< OpenCL programs among these that lay built on the disk
  int64_t cpu_fallbacks = 0;    ///< calls that ran on the CPU by Fallback::cpu

  friend Counters operator-(const Counters& a, const Counters& b);
};

Counters counters(DeviceKind kind);

}  // namespace ashlar

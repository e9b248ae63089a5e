// The cells behind runtime/device/counters.h: written by the runtime from any thread, read by counters().
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/device/device.h"

namespace ashlar::detail {

struct CounterCells {
  std::atomic<int64_t> launches{0};
  std::atomic<int64_t> bytes_to_device{0};
  std::atomic<int64_t> bytes_to_host{0};
  std::atomic<int64_t> bytes_on_device{0};
  std::atomic<int64_t> allocations{0};
  std::atomic<int64_t> pool_hits{0};
  std::atomic<int64_t> pool_bytes{0};
  std::atomic<int64_t> live_bytes{0};
  std::atomic<int64_t> peak_live_bytes{0};  ///< the most of them at once (memory.h)
  std::atomic<int64_t> modules_loaded{0};
  std::atomic<int64_t> cache_hits{0};
  std::atomic<int64_t> cpu_fallbacks{0};
};

CounterCells& counter_cells(DeviceKind kind) noexcept;

inline void count(std::atomic<int64_t>& cell, int64_t amount = 1) noexcept {
  cell.fetch_add(amount, std::memory_order_relaxed);
}

/// More bytes in use.
inline void count_live(CounterCells& cells, int64_t bytes) noexcept {
  const int64_t live = cells.live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t most = cells.peak_live_bytes.load(std::memory_order_relaxed);
  while (live > most && !cells.peak_live_bytes.compare_exchange_weak(most, live, std::memory_order_relaxed)) {
  }
}

}  // namespace ashlar::detail

#include "runtime/memory/memory.h"

#include <atomic>
#include <string>

#include "runtime/cpu/scratch.h"
#include "runtime/device/counter_cells.h"
#include "runtime/device/device_state.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

std::atomic<Fallback> policy{Fallback::error};

}  // namespace

void set_memory_cap(Device device, int64_t bytes) try {
  if (bytes < 0) {
    throw ValueError("set_memory_cap", std::to_string(bytes) + " bytes", "0 (no cap) or more", "");
  }
  detail::device_state(device).set_cap(bytes);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("set_memory_cap");
}

int64_t trim_memory(Device device) try {
  const int64_t released = detail::device_state(device).trim();
  return device.kind == DeviceKind::cpu ? released + detail::trim_scratch() : released;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("trim_memory");
}

int64_t peak_live_bytes(DeviceKind kind) { return detail::counter_cells(kind).peak_live_bytes; }

void reset_peak_live_bytes(DeviceKind kind) {
  detail::CounterCells& cells = detail::counter_cells(kind);
  cells.peak_live_bytes = cells.live_bytes.load();
}

void set_fallback(Fallback chosen) { policy = chosen; }

Fallback fallback() { return policy; }

}  // namespace ashlar

#include "runtime/memory.h"

#include <atomic>
#include <string>

#include "runtime/cpu/scratch.h"
#include "runtime/device_state.h"
#include "runtime/error.h"

namespace ashlar {
namespace {

std::atomic<Fallback> policy{Fallback::error};

}  // namespace

void set_memory_cap(Device device, int64_t bytes) {
  if (bytes < 0) {
    throw ValueError("set_memory_cap", std::to_string(bytes) + " bytes", "0 (no cap) or more", "");
  }
  detail::device_state(device).set_cap(bytes);
}

int64_t trim_memory(Device device) {
  const int64_t released = detail::device_state(device).trim();
  return device.kind == DeviceKind::cpu ? released + detail::trim_scratch() : released;
}

void set_fallback(Fallback chosen) { policy = chosen; }

Fallback fallback() { return policy; }

}  // namespace ashlar

// Control over the memory pools (one per device and stream).
#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace ashlar {

/// Bytes that tensors on `device` may hold in total; 0 means no cap. Beyond it: trim, retry, OutOfMemory.
void set_memory_cap(Device device, int64_t bytes);

/// Gives free pool memory of `device` back to the driver. Returns the bytes released.
int64_t trim_memory(Device device);

/// The most bytes that tensors on devices of a kind had in use at once (Counters::live_bytes), since the process
/// started or since the last reset, which begins with what is in use then. What a graph's replays use isn't in use.
int64_t peak_live_bytes(DeviceKind kind);
void reset_peak_live_bytes(DeviceKind kind);

/// What a call does when its device has no kernel for it.
enum class Fallback : uint8_t {
  error,  ///< throw MissingKernel (the default)
  cpu,    ///< copy to the CPU, run there, copy back, and count it in Counters::cpu_fallbacks
};
void set_fallback(Fallback policy);
Fallback fallback();

}  // namespace ashlar

// DeviceState: one opened device, its memory budget and the pools that draw on it. Lives until the process ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device/counter_cells.h"
#include "runtime/device/device.h"

namespace ashlar::detail {

class MemoryPool;
class StreamState;

class DeviceState {
 public:
  virtual ~DeviceState() = default;
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  Device device() const { return device_; }
  CounterCells& counters() const { return counters_; }

  /// Memory of the device, 256-byte aligned; 0 when there's no room. Not counted: that's the pools' business.
  virtual uint64_t allocate(int64_t bytes) noexcept = 0;
  virtual void release(uint64_t handle) noexcept = 0;
  /// Page-locked memory of the host, which the device reads by itself; null when there's no such thing or no room.
  virtual void* allocate_host(int64_t) noexcept { return nullptr; }
  virtual void release_host(void*) noexcept {}
  /// Bytes [offset, offset + bytes) of an allocation by a handle of their own; the offset is a multiple of kGuardBytes.
  /// Throws DriverError.
  virtual uint64_t part_of(uint64_t handle, int64_t offset, int64_t) { return handle + static_cast<uint64_t>(offset); }
  virtual void release_part(uint64_t) noexcept {}
  /// Throws DriverError.
  virtual std::shared_ptr<StreamState> make_stream() = 0;
  /// A queue that the caller made and keeps alive. Throws DeviceError where there's no such thing.
  virtual std::shared_ptr<StreamState> wrap_stream(void* native_queue);
  /// What the address of a kernel's output must be a multiple of, in bytes.
  virtual int64_t output_alignment() const = 0;

  void set_cap(int64_t bytes) { cap_.store(bytes, std::memory_order_relaxed); }
  int64_t cap() const { return cap_.load(std::memory_order_relaxed); }
  /// Bytes taken from the driver by all pools.
  int64_t held_bytes() const { return held_.load(std::memory_order_relaxed); }

  /// Takes `bytes` from the driver within the cap; 0 when there's no room.
  uint64_t acquire(int64_t bytes) noexcept;
  void give_back(uint64_t handle, int64_t bytes) noexcept;

  void enlist(MemoryPool* pool);
  void dismiss(MemoryPool* pool) noexcept;
  /// Empties the free lists of all pools; returns the bytes released.
  int64_t trim() noexcept;

 protected:
  explicit DeviceState(Device device) : device_(device), counters_(counter_cells(device.kind)) {}

 private:
  const Device device_;
  CounterCells& counters_;
  std::atomic<int64_t> cap_{0};
  std::atomic<int64_t> held_{0};
  std::mutex mutex_;
  std::vector<MemoryPool*> pools_;
};

/// Of each kind.
inline constexpr int kMostDevices = 64;

/// Opens the device at the first call. Throws DeviceError when it isn't there, DriverError when it can't be opened.
DeviceState& device_state(Device device);

/// Number of devices of a kind; 0 without a driver. Throws std::bad_alloc only.
int device_count(DeviceKind kind);

}  // namespace ashlar::detail

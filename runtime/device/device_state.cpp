#include "runtime/device/device_state.h"

#include <algorithm>
#include <array>
#include <string>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/memory/memory_pool.h"
#include "runtime/opencl/opencl_device.h"
#include "runtime/support/environment.h"
#include "runtime/support/error.h"

namespace ashlar::detail {

std::shared_ptr<StreamState> DeviceState::wrap_stream(void*) {
  throw DeviceError("Stream::wrap", "a stream for " + device().str(), "a CUDA device", "Make one with Stream(device)");
}

uint64_t DeviceState::acquire(int64_t bytes) noexcept {
  const int64_t held = held_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const int64_t limit = cap();
  const uint64_t handle = limit > 0 && held > limit ? 0 : allocate(bytes);
  if (handle == 0) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    return 0;
  }
  count(counters_.allocations);
  count(counters_.pool_bytes, bytes);
  return handle;
}

void DeviceState::give_back(uint64_t handle, int64_t bytes) noexcept {
  release(handle);
  held_.fetch_sub(bytes, std::memory_order_relaxed);
  count(counters_.pool_bytes, -bytes);
}

void DeviceState::enlist(MemoryPool* pool) {
  std::lock_guard lock(mutex_);
  pools_.push_back(pool);
}

void DeviceState::dismiss(MemoryPool* pool) noexcept {
  std::lock_guard lock(mutex_);
  std::erase(pools_, pool);
}

int64_t DeviceState::trim() noexcept {
  int64_t released = 0;
  std::lock_guard lock(mutex_);  // a pool can't be destroyed while it's trimmed here
  for (MemoryPool* pool : pools_) released += pool->trim();
  return released;
}

namespace {

DeviceState& open_device(Device device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return open_cpu_device();
    case DeviceKind::opencl:
      return open_opencl_device(device.index);
    case DeviceKind::cuda:
      return open_cuda_device(device.index);
  }
  throw DeviceError("device", "an unknown kind", "cpu, opencl or cuda", "");
}

}  // namespace

int device_count(DeviceKind kind) {
  environment();  // what opens drivers reads it, and mustn't throw
  switch (kind) {
    case DeviceKind::cpu:
      return 1;
    case DeviceKind::opencl:
      return std::min(opencl_device_count(), kMostDevices);
    case DeviceKind::cuda:
      return std::min(cuda_device_count(), kMostDevices);
  }
  return 0;
}

DeviceState& device_state(Device device) {
  static std::array<std::array<std::atomic<DeviceState*>, kMostDevices>, kDeviceKinds> opened{};
  static std::mutex& mutex = *new std::mutex;
  const int available = device_count(device.kind);
  if (device.index < 0 || device.index >= available) {
    throw DeviceError("device " + device.str(),
                      std::to_string(available) + " " + std::string(name_of(device.kind)) + " devices on this machine",
                      "an index below that", "Install the driver, or use a device that Device::available() lists");
  }
  auto& slot = opened[static_cast<size_t>(device.kind)][static_cast<size_t>(device.index)];
  if (DeviceState* state = slot.load(std::memory_order_acquire)) return *state;
  std::lock_guard lock(mutex);
  if (DeviceState* state = slot.load(std::memory_order_acquire)) return *state;
  DeviceState& state = open_device(device);
  slot.store(&state, std::memory_order_release);
  log("opened " + device.str());
  return state;
}

}  // namespace ashlar::detail

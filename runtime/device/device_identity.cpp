#include "runtime/device/device_identity.h"

#include <array>
#include <atomic>
#include <mutex>

#include "runtime/cuda/cuda_device.h"
#include "runtime/device/device_state.h"
#include "runtime/launch/kernel.h"
#include "runtime/opencl/opencl_device.h"
#include "runtime/support/environment.h"

namespace ashlar::detail {
namespace {

std::string of_threads() {
  const int threads = environment().threads;
  return ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

std::string name_of(Device device) {
  return device.description() + (device.kind == DeviceKind::cpu ? of_threads() : "");
}

std::string family_of(Device device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return "x86-64" + of_threads();  // the instruction set is a code target, with tables of its own
    case DeviceKind::opencl:
      return opencl_vendor(device.index);
    case DeviceKind::cuda:
      return cuda_capability(device.index);
  }
  return "";
}

}  // namespace

const DeviceIdentity& device_identity(Device device) {
  static std::array<std::array<std::atomic<const DeviceIdentity*>, kMostDevices>, kDeviceKinds> known{};
  static std::mutex& mutex = *new std::mutex;
  if (device.index < 0 || device.index >= kMostDevices) device_state(device);  // throws
  auto& slot = known[static_cast<size_t>(device.kind)][static_cast<size_t>(device.index)];
  if (const DeviceIdentity* identity = slot.load(std::memory_order_acquire)) return *identity;
  const std::lock_guard lock(mutex);
  if (const DeviceIdentity* identity = slot.load(std::memory_order_acquire)) return *identity;
  auto* identity = new DeviceIdentity{name_of(device), family_of(device), 0, 0};  // lives as long as the process
  identity->name_hash = identity_hash(identity->name);
  identity->family_hash = identity_hash(identity->family);
  slot.store(identity, std::memory_order_release);
  return *identity;
}

}  // namespace ashlar::detail

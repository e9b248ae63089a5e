#include "runtime/device/device.h"

#include <charconv>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/device/device_state.h"
#include "runtime/memory/host_memory.h"
#include "runtime/opencl/opencl_device.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

void require(const Device& device) {
  if (device.is_available()) return;
  throw DeviceError("device " + device.str(), "a machine without it", "a device that is there",
                    "Install its driver, or use one that Device::available() lists");
}

}  // namespace

std::string_view name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::opencl:
      return "opencl";
    case DeviceKind::cuda:
      return "cuda";
  }
  return "unknown";
}

Device Device::parse(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  Device device;
  bool valid = kind == "cpu" || kind == "opencl" || kind == "cuda";
  device.kind = kind == "opencl" ? DeviceKind::opencl : kind == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), device.index);
    valid &= error == std::errc() && end == digits.data() + digits.size() && device.index >= 0 &&
             device.kind != DeviceKind::cpu;
  }
  if (!valid) {
    throw DeviceError("Device::parse", "\"" + std::string(text) + "\"", "cpu, opencl, opencl:N, cuda or cuda:N",
                      "N counts from 0");
  }
  return device;
}

std::vector<Device> Device::available() try {
  std::vector<Device> devices = {cpu()};
  for (DeviceKind kind : {DeviceKind::opencl, DeviceKind::cuda}) {
    for (int i = 0; i < detail::device_count(kind); ++i) devices.push_back({kind, i});
  }
  return devices;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Device::available");
}

bool Device::is_available() const try {
  return index >= 0 && index < detail::device_count(kind);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Device::is_available");
}

std::string Device::str() const {
  if (kind == DeviceKind::cpu) return "cpu";
  return std::string(name_of(kind)) + ":" + std::to_string(index);
}

std::string Device::description() const try {
  require(*this);
  switch (kind) {
    case DeviceKind::cpu:
      return detail::cpu_description();
    case DeviceKind::opencl:
      return detail::opencl_description(index);
    case DeviceKind::cuda:
      return detail::cuda_description(index);
  }
  return "";
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Device::description");
}

std::string Device::driver() const try {
  require(*this);
  switch (kind) {
    case DeviceKind::cpu:
      return detail::cpu_driver();
    case DeviceKind::opencl:
      return detail::opencl_driver(index);
    case DeviceKind::cuda:
      return detail::cuda_driver();
  }
  return "";
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Device::driver");
}

}  // namespace ashlar

// Where tensors live and kernels run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

enum class DeviceKind : uint8_t { cpu, opencl, cuda };
inline constexpr int kDeviceKinds = 3;

/// A processor: `cpu`, or the index-th OpenCL or CUDA device of this process. A plain value; nothing is opened
/// until a tensor or a stream is made on it.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device opencl(int index = 0) { return {DeviceKind::opencl, index}; }
  static Device cuda(int index = 0) { return {DeviceKind::cuda, index}; }

  /// "cpu", "opencl", "cuda:1", … Throws DeviceError on anything else.
  static Device parse(std::string_view text);
  /// Devices usable now, the CPU first. A missing driver means fewer devices, never an exception.
  static std::vector<Device> available();

  /// "cpu", "opencl:0", "cuda:0"
  std::string str() const;
  /// The driver's name of the device, e.g. "NVIDIA H200". Throws DeviceError when it isn't there.
  std::string description() const;
  /// Driver and version, e.g. "CUDA driver 13.0" or "OpenCL 3.0 PoCL 3.1".
  std::string driver() const;
  bool is_available() const;

  friend bool operator==(const Device&, const Device&) = default;
};

std::string_view name_of(DeviceKind kind);

}  // namespace ashlar

// Which device this is, in the words of the tuned tables.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/device.h"

namespace ashlar::detail {

struct DeviceIdentity {
  /// Device::description(); of a CPU with the number of threads, by which ways of sharing work differ more than by
  /// processors: "AMD EPYC, 2 threads".
  std::string name;
  /// Devices of one family are like each other: "9.0" (CUDA's capability), an OpenCL vendor, "x86-64, 2 threads".
  std::string family;
  uint64_t name_hash, family_hash;
};

/// Asked of the driver at the first call for each device. Throws DeviceError when it isn't there.
const DeviceIdentity& device_identity(Device device);

}  // namespace ashlar::detail

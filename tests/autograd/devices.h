// The devices that tests of whole computations run on.
#pragma once

#include <vector>

#include "ashlar/ops.h"
#include "runtime/device.h"
#include "runtime/launch.h"

namespace ashlar::testing {

/// Devices of this machine that this build has kernels for. A build for the CPU alone still sees OpenCL's driver.
inline std::vector<Device> usable_devices() {
  std::vector<Device> usable;
  for (const Device device : Device::available()) {
    if (has_instance(kernels::add, KernelKey{}, device.kind)) usable.push_back(device);
  }
  return usable;
}

}  // namespace ashlar::testing

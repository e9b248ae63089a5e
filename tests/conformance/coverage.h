// Which compiled kernels the cases reach, seen by watching every launch.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/kernel.h"

namespace ashlar::conformance {

/// Watches launches from now on until the end of the process.
void watch_launches();

/// Instances of `kernels` for `device` that nothing has launched so far: "exp f16 (cuda)". On the CPU those count that
/// dispatch can choose: of the widest instructions in use, and of narrower ones what isn't compiled for wider ones.
/// Kernels not linked for the device have none.
std::vector<std::string> instances_not_launched(std::span<const KernelInfo* const> kernels, DeviceKind device);

/// Kernels whose vendor routine for `device` has computed nothing so far: "matmul (cublaslt_matmul)".
std::vector<std::string> vendor_routines_not_reached(std::span<const KernelInfo* const> kernels, DeviceKind device);

/// What runs that code.
DeviceKind device_of(CodeTarget target);

/// The code that `device` runs: on the CPU, the widest that the launches so far have used.
CodeTarget code_target(DeviceKind device);

}  // namespace ashlar::conformance

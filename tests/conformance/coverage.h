// Which compiled kernels the cases reach, seen by watching every launch.
#pragma once

#include <compare>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/launch/kernel.h"

namespace ashlar::conformance {

/// Watches launches from now on until the end of the process.
void watch_launches();

/// One GPU function of one compiled instance: one of the plans among which a call chooses.
struct DeviceFunction {
  const KernelInfo* kernel;
  uint64_t key;  ///< KernelInstance::key
  CodeTarget target;
  std::string name;

  auto operator<=>(const DeviceFunction&) const = default;
  std::string str() const;  ///< "softmax f16 (cuda) _kernel_y_s0_r_block_block_id_x__3"
};

/// All that are linked for a kind of device.
std::vector<DeviceFunction> device_functions(std::span<const KernelInfo* const> kernels, DeviceKind device);

/// What has been launched between two calls of take_reached().
struct Reached {
  std::set<std::pair<const KernelInfo*, CodeTarget>> kernels;
  std::set<DeviceFunction> functions;
};
Reached take_reached();
/// The names of the plans that have run between two calls of take_plans().
std::set<std::string> take_plans();

/// Instances of `kernels` that nothing has launched so far where `code` was picked: "exp f16 (cuda)". On the CPU those
/// count that dispatch can choose: of the widest instructions in use, and of narrower ones what isn't compiled for
/// wider ones. Kernels not linked for the device have none.
std::vector<std::string> instances_not_launched(std::span<const KernelInfo* const> kernels, CodeTarget code);

/// Kernels whose vendor routine for `device` has computed nothing so far: "matmul (cublaslt_matmul)".
std::vector<std::string> vendor_routines_not_reached(std::span<const KernelInfo* const> kernels, DeviceKind device);

/// What runs that code.
DeviceKind device_of(CodeTarget target);

/// The code that runs where `code` is picked: on the CPU, the widest that the launches so far have used there.
CodeTarget widest_launched(CodeTarget code);

}  // namespace ashlar::conformance

// From a call to the compiled function that serves it: code for the processor, then the setting of the tunables that
// the tuned tables name for this device and these sizes, or the plan that suits them (plans.h). Constant time: two
// binary searches and one look-up, and where the kernel has plans, their conditions.
#pragma once

#include <span>

#include "runtime/launch/kernel.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::detail {

/// The instance with default tunables for this kind of device (and this CPU's features), or nullptr.
const KernelInstance* find_instance(const KernelInfo& kernel, KernelKey key, DeviceKind kind);

/// The instance to call, or nullptr when there is none. In this order: the forced setting (set_forced_setting());
/// what a table of this very device says; what one of a device of the same family says; the default, also for sizes
/// that lie more than a factor of 4 away from every measured one (sizes beyond the largest count as the largest). Where
/// the kernel has plans, a plan forced by name comes before all of these; a forced or tuned plan that can't serve the
/// call counts as none; and the default is what plans.h says.
const KernelInstance* choose_instance(const KernelInfo& kernel, KernelKey key, Device device,
                                      std::span<const Tensor> inputs, std::span<const Tensor> outputs);

/// What choose_instance() goes by besides its arguments, as a number; -1 where anything is forced, replaced or logged.
int64_t state_of_choices();

/// What the plan that a call would get by its kernel's model takes, in microseconds; -1 where there is no such model.
double modelled_microseconds(const KernelInfo& kernel, KernelKey key, Device device, std::span<const Tensor> inputs,
                             std::span<const Tensor> outputs);

}  // namespace ashlar::detail

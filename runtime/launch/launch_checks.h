// What the launch gate checks before a call, and what it throws after one.
#pragma once

#include <span>
#include <vector>

#include "runtime/launch/launch.h"
#include "runtime/launch/launch_context.h"

namespace ashlar::detail {

inline constexpr int kMostArguments = 24;

/// The tensors and numbers of one call, each in the order of the kernel's arguments of that role.
struct CallArguments {
  std::span<const Tensor> inputs;
  std::span<const Scalar> scalars;
  std::span<const Tensor> outputs;
  std::span<const Tensor> scratch;
};

inline DType dtype_of_argument(const Argument& argument, KernelKey key) {
  return argument.element < 0 ? argument.dtype : key.elements[static_cast<size_t>(argument.element)];
}

[[noreturn]] void throw_other_version(const KernelInfo& kernel);
/// That the kernel's tables are laid out as this library reads them. Throws KernelError.
inline void check_version(const KernelInfo& kernel) {
  if (kernel.version != kTablesVersion) [[unlikely]]
    throw_other_version(kernel);
}

/// Version, numbers, devices, dtypes, ranks, sizes and spans. Returns the common device. Throws as launch() says.
Device check_arguments(const KernelInfo& kernel, KernelKey key, const CallArguments& arguments);

/// An empty input that leaves outputs to compute is the forms' business. Throws ShapeError.
void check_inputs_not_empty(const KernelInfo& kernel, std::span<const Tensor> inputs);

/// Takes the kernel's scratch buffers from the pool, by its shape rule. Checks the outputs' shapes against the rule
/// too. Throws ShapeError, OutOfMemory.
std::vector<Tensor> make_scratch(const KernelInfo& kernel, KernelKey key, const CallArguments& arguments,
                                 Device device);

[[noreturn]] void throw_missing_kernel(const KernelInfo& kernel, KernelKey key, Device device);

/// Turns Halide's return code and what the hooks recorded into an exception: OutOfMemory, DriverError or KernelError.
[[noreturn]] void throw_launch_error(const KernelInfo& kernel, const KernelInstance& instance, int code,
                                     const LaunchContext& context);

/// Releases the OpenCL kernel or program that Halide's runtime forgot on an error.
void release_forgotten(LaunchContext& context) noexcept;

}  // namespace ashlar::detail

// The CUDA entry points that Halide's runtime gets from us.
#pragma once

namespace ashlar::detail::cuda {

/// What Halide's runtime is to call for a driver function: the driver's own, or ours in its place, which refuses
/// allocations and copies inside a kernel. Loading and launching go past Halide's runtime (kernel_module.h).
void* halide_entry(const char* name) noexcept;

}  // namespace ashlar::detail::cuda

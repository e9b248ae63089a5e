// The OpenCL entry points that Halide's runtime gets from us.
#pragma once

namespace ashlar::detail::opencl {

/// What Halide's runtime is to call for a driver function: the driver's own, or ours in front of it, which counts,
/// lets planted faults strike, records failures in the active launch, and refuses allocations and copies.
void* halide_entry(const char* name) noexcept;

}  // namespace ashlar::detail::opencl

// The CUDA entry points that Halide's runtime gets from us.
#pragma once

namespace ashlar::detail::cuda {

/// What Halide's runtime is to call for a driver function: the driver's own, or ours in front of it, which counts,
/// lifts Halide's cap of 64 registers, lets planted faults strike, records failures in the active launch, and refuses
/// allocations and copies.
void* halide_entry(const char* name) noexcept;

}  // namespace ashlar::detail::cuda

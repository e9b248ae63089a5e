// Kernels that begin before the kernel ahead of them in their stream has ended (programmatic dependent launch, NVIDIA's
// PTX ISA, griddepcontrol): the launch, a block's start and what it works out from parameters alone lie behind the other
// kernel's last blocks instead of after them.
#pragma once

#include <string>

namespace ashlar::dsl {

/// The first GPUs that have it.
inline constexpr int kOverlapArchitecture = 90;

/// PTX for those GPUs, whose kernels let the next one begin at once, and wait for the one ahead before they touch
/// memory: every thread does, and so a kernel that has ended is one whose predecessors have. The runtime launches what
/// was written for these GPUs accordingly (runtime/cuda/kernel_module.h). Throws std::runtime_error for a kernel without
/// an end.
std::string overlapping(const std::string& ptx);

}  // namespace ashlar::dsl

// Kernels that begin before the kernel ahead of them in their stream has ended (programmatic dependent launch, NVIDIA's
// PTX ISA, griddepcontrol): the launch, a block's start and what it works out from parameters alone lie behind the
// other kernel's last blocks instead of after them.
#pragma once

#include <string>

#include "runtime/cuda/overlap.h"

namespace ashlar::dsl {

using detail::cuda::kOverlapArchitecture;

/// PTX for those GPUs, whose kernels let the next one begin at once, and wait for the one ahead before they touch
/// memory: every thread does, and so a kernel that has ended is one whose predecessors have. The runtime launches what
/// was written for these GPUs accordingly (runtime/cuda/kernel_module.h). Throws std::runtime_error for text that names
/// no architecture.
std::string overlapping(const std::string& ptx);

}  // namespace ashlar::dsl

// Runs every case on every device: the main function of a conformance program.
#pragma once

#include <span>

#include "runtime/launch/kernel.h"

namespace ashlar::conformance {

/// What a program's main returns after its add_case() calls. `kernels`: what has been compiled; each must have a case
/// and each of its instances must be reached by one. See --help for the arguments (GoogleTest's work too).
int run_conformance(int argc, char** argv, std::span<const KernelInfo* const> kernels);

}  // namespace ashlar::conformance

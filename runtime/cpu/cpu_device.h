// The CPU as a device: memory from the system, streams whose work is done when the call returns.
#pragma once

#include <string>

#include "runtime/launch/kernel.h"

namespace ashlar::detail {

class DeviceState;

DeviceState& open_cpu_device();
/// The processor's own name, e.g. "AMD EPYC 7543".
std::string cpu_description();
/// Which kernels are used and by how many threads, e.g. "AVX2 kernels, 2 threads".
std::string cpu_driver();
/// How many bytes of a vector of 512 bits its units take at once: 64, or 32 where they take it in two halves, as AMD's
/// up to Zen 4 do.
int cpu_vector_bytes() noexcept;
/// The widest code that this processor and its operating system run and that ASHLAR_CPU allows; what wasn't compiled
/// for it is taken from the next narrower one.
CodeTarget cpu_code_target() noexcept;
/// From now on none wider than `widest`, and returns what was the widest so far: for tests that run all code in one
/// process.
CodeTarget set_cpu_code_target(CodeTarget widest) noexcept;

}  // namespace ashlar::detail

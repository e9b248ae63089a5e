// The stand-ins for drivers, as the tests of faults use them: what they hold, and kernels for the one without a GPU.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/device/device.h"

namespace ashlar::testing {

/// What is held on a device and in its driver: bytes of tensors and of pools, then handles of each kind.
using Held = std::array<int64_t, 8>;
Held held(Device device);

/// Tells the drivers to say when they are at work, so that their memory isn't taken for the library's. Opens the
/// libraries that ASHLAR_CUDA_LIBRARY and ASHLAR_OPENCL_LIBRARY name, and asks them for nothing.
void watch_drivers();

/// Has OpenCL's next builds of programs fail, so many of them.
void fail_opencl_builds(int count);

/// Gives every kernel of the library instances for CUDA: its instances for the CPU, launched through the stand-in
/// driver of tests/runtime/fake_cuda.cpp.
void run_cpu_kernels_on_fake_cuda();

}  // namespace ashlar::testing

// What models of calls count for each kernel that is started.
#pragma once

#include "runtime/device/device.h"

namespace ashlar {

/// Microseconds from one kernel of a replayed graph to the next, beside its work: as measured with CUDA's graphs, and
/// with NVIDIA's OpenCL, whose driver takes as long to enqueue a kernel.
constexpr double kernel_start(DeviceKind kind) { return kind == DeviceKind::opencl ? 5.0 : 1.4; }

}  // namespace ashlar

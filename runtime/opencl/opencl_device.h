// OpenCL devices: one context each, one in-order queue per stream, one cl_mem per block of memory.
#pragma once

#include <string>

namespace ashlar::detail {

class DeviceState;

/// Devices of all platforms: GPUs first, then accelerators, then CPUs, otherwise in the loader's order.
int opencl_device_count() noexcept;
/// Throws DriverError when the context can't be made.
DeviceState& open_opencl_device(int index);
std::string opencl_description(int index);
std::string opencl_driver(int index);
std::string opencl_vendor(int index);
/// Bytes of local memory that a work-group can have.
int opencl_local_bytes(int index) noexcept;

}  // namespace ashlar::detail

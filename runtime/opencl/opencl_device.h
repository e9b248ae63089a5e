// OpenCL devices: one context each, one in-order queue per stream (PoCL: one in all), one cl_mem per block of memory.
#pragma once

#include <string>

namespace ashlar::detail {

class DeviceState;

/// Devices of all platforms: GPUs first, then accelerators, then CPUs, otherwise in the loader's order.
/// Throws std::bad_alloc only.
int opencl_device_count();
/// Throws DriverError when the context can't be made.
DeviceState& open_opencl_device(int index);
std::string opencl_description(int index);
std::string opencl_driver(int index);
std::string opencl_vendor(int index);
/// Bytes of local memory that a work-group can have.
int opencl_local_bytes(int index) noexcept;
/// Threads that a work-group can have, of a kernel that takes few registers.
int opencl_group_threads(int index) noexcept;
/// What models of kernels' times go by. No query tells how quick memory is: 20 GB/s for each compute unit are meant to
/// stand for GPUs from 10 (GeForce) to 25 (H100).
struct OpenClSpeed {
  int compute_units;
  double gigahertz, gigabytes_per_second;
};
OpenClSpeed opencl_speed(int index) noexcept;
/// What the compiler of OpenCL C is told about the device: -D ASHLAR_PTX_BF16 where it takes PTX in `asm` that rounds
/// to bf16 (NVIDIA's, from compute capability 8.0 on); -D native_exp2=exp2 unless it is NVIDIA's.
const char* opencl_build_options(int index) noexcept;

}  // namespace ashlar::detail

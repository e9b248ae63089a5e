// CUDA devices: the primary context of each, one non-blocking CUstream per stream.
#pragma once

#include <string>

namespace ashlar::detail {

class DeviceState;

int cuda_device_count() noexcept;
/// Throws DriverError when the context can't be made.
DeviceState& open_cuda_device(int index);
std::string cuda_description(int index);
/// "9.0"; "unknown" where the driver doesn't say.
std::string cuda_capability(int index);
/// What models of plans ask (runtime/launch/plans.h); where the driver doesn't say, an H200's: 132, 1.98 and 4800.
struct CudaSpeed {
  int multiprocessors;
  double gigahertz, gigabytes_per_second;
};
CudaSpeed cuda_speed(int index) noexcept;
/// Shared memory that one block may have.
int cuda_shared_bytes(int index) noexcept;
/// Whether blocks of a kernel may form clusters: from compute capability 9.0 on.
bool cuda_has_clusters(int index) noexcept;
/// "CUDA driver 13.0": the newest CUDA version that the driver serves.
std::string cuda_driver();

}  // namespace ashlar::detail

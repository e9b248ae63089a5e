// CUDA devices: the primary context of each, one non-blocking CUstream per stream.
#pragma once

#include <string>

namespace ashlar::detail {

class DeviceState;

int cuda_device_count() noexcept;
/// Throws DriverError when the context can't be made.
DeviceState& open_cuda_device(int index);
std::string cuda_description(int index);
/// "CUDA driver 13.0": the newest CUDA version that the driver serves.
std::string cuda_driver();

}  // namespace ashlar::detail

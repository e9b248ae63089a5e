// The CPU as a device: memory from the system, streams whose work is done when the call returns.
#pragma once

#include <string>

namespace ashlar::detail {

class DeviceState;

DeviceState& open_cpu_device();
/// The processor's own name, e.g. "AMD EPYC 7543".
std::string cpu_description();
/// Which kernels are used and by how many threads, e.g. "AVX2 kernels, 2 threads".
std::string cpu_driver();
/// True when AVX2, FMA and F16C are there and ASHLAR_CPU doesn't say "baseline".
bool cpu_uses_avx2() noexcept;

}  // namespace ashlar::detail

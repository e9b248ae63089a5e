// The devices that tests run on, and tensors made without kernels.
#pragma once

#include <vector>

#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/transfer.h"

namespace ashlar::testing {

/// All devices with memory that a test may use: the CPU, and the first OpenCL and CUDA device there is.
inline std::vector<Device> memory_devices() {
  std::vector<Device> devices;
  for (const Device& device : Device::available()) {
    if (device.index == 0) devices.push_back(device);
  }
  return devices;
}

/// Devices that run kernels. The CUDA driver of the tests (fake_cuda.cpp) has memory but runs nothing.
inline std::vector<Device> kernel_devices() {
  std::vector<Device> devices;
  for (const Device& device : memory_devices()) {
    if (device.kind != DeviceKind::cuda || device.description() != "fake CUDA device") devices.push_back(device);
  }
  return devices;
}

inline std::vector<float> ramp(int64_t n, float first = 0) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return values;
}

/// A dense f32 tensor of rank 1, uploaded byte by byte.
inline Tensor upload(const std::vector<float>& values, Device device) {
  const auto n = static_cast<int64_t>(values.size());
  std::shared_ptr<detail::Storage> storage = detail::Storage::create(n * 4, device);
  detail::copy_from_host(*storage, 0, values.data(), n * 4);
  return Tensor(std::move(storage), {n}, {1}, 0, DType::f32);
}

/// The storage's bytes from the view's offset on, as floats.
inline std::vector<float> download(const Tensor& x) {
  std::vector<float> values(static_cast<size_t>(x.numel()));
  detail::copy_to_host(values.data(), *x.storage(), x.offset() * 4, x.numel() * 4);
  return values;
}

}  // namespace ashlar::testing

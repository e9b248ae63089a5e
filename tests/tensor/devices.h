// The tests that touch elements run on every device: CPU, OpenCL (PoCL in CI), CUDA where there is one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "runtime/forms/movement.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/memory.h"

namespace ashlar::testing {

class OnDevice : public ::testing::TestWithParam<Device> {
 protected:
  Device device() const { return GetParam(); }
  /// Between -1 and 1, the same in each run.
  Tensor numbers(const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    for (float& v : values) v = std::uniform_real_distribution<float>(-1, 1)(engine_);
    return Tensor::from(values, shape, device());
  }
  std::mt19937 engine_{7};
};

/// Devices of this machine that this build has kernels for. A build for the CPU alone still sees OpenCL's driver.
inline std::vector<Device> usable_devices() {
  std::vector<Device> usable;
  for (const Device device : Device::available()) {
    if (has_instance(kernels::fill, {.elements = {DType::u8}}, device.kind)) usable.push_back(device);
  }
  return usable;
}

inline std::string device_name(const ::testing::TestParamInfo<Device>& info) {
  std::string name = info.param.str();
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

/// For a scope, `device` has memory for small things only.
class LittleMemory {
 public:
  explicit LittleMemory(Device device) : device_(device) { set_memory_cap(device, int64_t{1} << 30); }
  ~LittleMemory() { set_memory_cap(device_, 0); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  Device device_;
};

/// Expects `call` to throw an E whose message has all of `parts`.
template <class E, class Call>
void expect_error(Call call, std::initializer_list<const char*> parts) {
  try {
    call();
  } catch (const E& error) {
    for (const char* part : parts) EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    return;
  } catch (const std::exception& error) {
    FAIL() << "another type of exception: " << error.what();
  }
  FAIL() << "no exception";
}

}  // namespace ashlar::testing

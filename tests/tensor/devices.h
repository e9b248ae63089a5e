// The tests that touch elements run on every device of the machine: CPU, OpenCL (PoCL in CI), CUDA where there is one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/device.h"

namespace ashlar::testing {

class OnDevice : public ::testing::TestWithParam<Device> {
 protected:
  Device device() const { return GetParam(); }
};

inline std::string device_name(const ::testing::TestParamInfo<Device>& info) {
  std::string name = info.param.str();
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

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

// Devices by name, what is there and what isn't, and the shape of error messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "runtime/device/counters.h"
#include "runtime/device/device.h"
#include "runtime/device/stream.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"

namespace ashlar {
namespace {

TEST(Device, ParsesItsOwnNames) {
  EXPECT_EQ(Device::parse("cpu"), Device::cpu());
  EXPECT_EQ(Device::parse("opencl"), Device::opencl(0));
  EXPECT_EQ(Device::parse("cuda:3"), Device::cuda(3));
  for (const Device& device : {Device::cpu(), Device::opencl(1), Device::cuda(12)}) {
    EXPECT_EQ(Device::parse(device.str()), device);
  }
}

TEST(Device, RefusesOtherNames) {
  for (const char* text : {"", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "CUDA", " cpu"}) {
    EXPECT_THROW(Device::parse(text), DeviceError) << text;
  }
}

TEST(Device, TheCpuIsAlwaysThere) {
  const std::vector<Device> devices = Device::available();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices.front(), Device::cpu());
  for (const Device& device : devices) {
    EXPECT_TRUE(device.is_available());
    EXPECT_FALSE(device.description().empty()) << device.str();
    EXPECT_FALSE(device.driver().empty()) << device.str();
  }
}

TEST(Device, AnAbsentOneIsAnErrorThatNamesIt) {
  const Device absent = Device::cuda(63);
  EXPECT_FALSE(absent.is_available());
  EXPECT_FALSE((Device{DeviceKind::opencl, -1}.is_available()));
  EXPECT_THROW(absent.description(), DeviceError);
  EXPECT_THROW(Stream{absent}, DeviceError);
  EXPECT_THROW(Stream::current(absent), DeviceError);
  EXPECT_THROW(set_memory_cap(absent, 1), DeviceError);
  try {
    detail::Storage::create(4, absent);
    FAIL() << "no exception";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("cuda:63"), std::string::npos) << error.what();
  }
}

TEST(Error, ReadsOperationCameNeededRemedy) {
  const ShapeError error("matmul", "f32[2, 3] and f32[4, 5]", "a[1] == b[0]", "Transpose one of them");
  EXPECT_STREQ(error.what(), "matmul: got f32[2, 3] and f32[4, 5]; needed a[1] == b[0]. Transpose one of them.");
  EXPECT_EQ(error.operation(), "matmul");
  const ValueError bare("fill", "a", "b", "");
  EXPECT_STREQ(bare.what(), "fill: got a; needed b.");
}

// ctest runs these with ASHLAR_OPENCL_LIBRARY and ASHLAR_CUDA_LIBRARY naming files that aren't there.
TEST(MissingDriver, MeansFewerDevicesAndATypedError) {
  const char* opencl = std::getenv("ASHLAR_OPENCL_LIBRARY");
  if (opencl == nullptr || std::string(opencl) != "libabsent.so") GTEST_SKIP() << "run by ctest with drivers hidden";
  EXPECT_EQ(Device::available(), std::vector<Device>{Device::cpu()});
  for (const Device& device : {Device::opencl(), Device::cuda()}) {
    EXPECT_FALSE(device.is_available());
    EXPECT_THROW(device.description(), DeviceError);
    EXPECT_THROW(device.driver(), DeviceError);
    EXPECT_THROW(Stream{device}, DeviceError);
    EXPECT_THROW(detail::Storage::create(4, device), DeviceError);
  }
  EXPECT_EQ(counters(DeviceKind::opencl).allocations, 0);
}

}  // namespace
}  // namespace ashlar

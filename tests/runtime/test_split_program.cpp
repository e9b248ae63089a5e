// Large OpenCL programs in parts.
#include <gtest/gtest.h>

#include <cmath>

#include "ashlar/ops/softmax.h"
#include "runtime/device/counters.h"
#include "runtime/opencl/split_program.h"
#include "tests/runtime/devices.h"

namespace ashlar {
namespace {

using detail::opencl::kernels_of;
using detail::opencl::SplitProgram;

TEST(SplitProgram, EachKernelHasTheHeadAndItsOwnDefinitions) {
  const std::string head = "#ifdef A\nint f(int x) { return x; }\n#endif\n#pragma OPENCL EXTENSION e : enable\n";
  const std::string first = "__kernel void first(int x) { }\n";
  const std::string second =
      "#define __address_space__x __global\n#define __address_space__y __global\n"
      "__kernel void second(\n__address_space__x const float *restrict _x)\n{\n#define __address_space__s "
      "__private\n}\n"
      "#undef __address_space__x\n";
  const auto kernels = kernels_of(head + first + second);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels.at("first"), head + first);
  EXPECT_EQ(kernels.at("second"), head + second);
  EXPECT_TRUE(kernels_of(head).empty());
}

TEST(SplitProgram, LeavesShortProgramsWhole) { EXPECT_FALSE(SplitProgram::suits("__kernel void k() { }\n")); }

TEST(SplitProgram, IsToldFromADriversHandle) {
  const std::string text = "__kernel void k() { }\n" + std::string(200 << 10, '\n');
  static SplitProgram* const split = SplitProgram::make(nullptr, text);  // it is never freed
  ASSERT_NE(split, nullptr);
  EXPECT_EQ(SplitProgram::of(split->handle()), split);
  static int something;
  EXPECT_EQ(SplitProgram::of(reinterpret_cast<cl_program>(&something)), nullptr);

  int builds = 0, status = 0;
  const auto build = [&](cl_context, cl_device_id, const char* source, const char* options, cl_int* result) {
    builds++;
    EXPECT_STREQ(options, "-D X");
    EXPECT_EQ(std::string(source).find("__kernel void k"), 0u);
    *result = builds == 1 ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
    return builds == 1 ? nullptr : reinterpret_cast<cl_program>(&something);
  };
  split->set_options(nullptr, "-D X");
  EXPECT_EQ(split->program_of("absent", build, &status), nullptr);
  EXPECT_EQ(status, CL_INVALID_KERNEL_NAME);
  EXPECT_EQ(split->program_of("k", build, &status), nullptr);
  EXPECT_EQ(status, CL_BUILD_PROGRAM_FAILURE);
  for (int call = 0; call < 2; call++) EXPECT_NE(split->program_of("k", build, &status), nullptr);
  EXPECT_EQ(builds, 2) << "built anew after a failure, then kept";
}

// softmax's program has a kernel for each range of row lengths.
TEST(SplitProgram, BuildsWhatACallNeeds) {
  if (!Device::opencl().is_available()) GTEST_SKIP() << "no OpenCL device";
  const auto built_for = [](int64_t columns) {
    const Counters before = counters(DeviceKind::opencl);
    const Tensor x = Tensor::from(std::vector<float>(static_cast<size_t>(columns), 1), {1, columns}, Device::opencl());
    EXPECT_NEAR(softmax(x, 1).to_vector<float>()[0], 1.0 / static_cast<double>(columns), 1e-6);
    return (counters(DeviceKind::opencl) - before).modules_loaded;
  };
  EXPECT_EQ(built_for(5), 1);
  EXPECT_EQ(built_for(6), 0);
  EXPECT_EQ(built_for(30), 1);
}

}  // namespace
}  // namespace ashlar

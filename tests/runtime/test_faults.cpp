// Every allocation and every driver call of a whole job is made to fail once. Each time there's either a typed
// exception or the right result, nothing leaks, and the next try works.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ashlar/ops/copy.h"
#include "ashlar/ops/unary.h"
#include "runtime/counters.h"
#include "runtime/error.h"
#include "runtime/fault.h"
#include "runtime/memory.h"
#include "runtime/stream.h"
#include "tests/runtime/devices.h"
#include "tests/runtime/host_kernel.h"

namespace ashlar {
namespace {

using detail::FaultScope;
using detail::FaultSite;
using testing::download;
using testing::ramp;
using testing::upload;

/// Uploads, computes on one stream, copies with an offset that asks for a temporary on another, reads back.
std::vector<float> job(Device device) {
  const Tensor x = upload(ramp(3000, -1500), device);
  const Tensor y = Tensor::empty({3000}, DType::f32, device);
  const std::vector<Tensor> inputs = {x}, outputs = {y};
  launch(kernels::relu, KernelKey{}, inputs, {}, outputs);

  const Stream other(device);
  StreamScope scope(other);
  const Tensor target = upload(std::vector<float>(4000, -1), device);
  const auto view = [](const Tensor& t, int64_t offset) {
    return Tensor(t.storage(), {1, 1, 10, 300}, {3000, 3000, 300, 1}, offset, DType::i32);
  };
  const std::vector<Tensor> from = {view(y, 0)}, to = {view(target, 77)};
  launch(kernels::copy, KernelKey{.elements = {DType::i32}}, from, {}, to);
  Stream::current(device).synchronize();
  return download(target);
}

std::vector<float> expected_result() {
  std::vector<float> values(4000, -1);
  for (int i = 0; i < 3000; ++i) values[static_cast<size_t>(77 + i)] = std::max(0.0f, static_cast<float>(i - 1500));
  return values;
}

class Faults : public ::testing::TestWithParam<Device> {};

/// Runs the job with the n-th visit failing, for n = 1, 2, … until none is left to fail. Returns how many failed.
int walk(Device device, FaultSite site) {
  constexpr int kMost = 2000;
  const std::vector<float> expected = expected_result();
  const Tensor bystander = upload(ramp(500), device);
  const int64_t live = counters(device.kind).live_bytes;
  int exceptions = 0;
  for (int n = 1; n < kMost; ++n) {
    bool fired = false;
    try {
      FaultScope fault(site, n);
      std::vector<float> result;
      try {
        result = job(device);
      } catch (...) {
        EXPECT_TRUE(fault.fired()) << n;
        throw;
      }
      fired = fault.fired();
      EXPECT_EQ(result, expected) << "fault " << n;
    } catch (const Error& error) {
      fired = true;
      ++exceptions;
      const bool typed = dynamic_cast<const OutOfMemory*>(&error) || dynamic_cast<const DriverError*>(&error);
      EXPECT_TRUE(typed) << n << ": " << error.what();
    }
    EXPECT_EQ(counters(device.kind).live_bytes, live) << n;
    EXPECT_EQ(download(bystander), ramp(500)) << n;
    EXPECT_EQ(job(device), expected) << "after fault " << n;
    if (!fired) return exceptions;
  }
  ADD_FAILURE() << "more than " << kMost << " visits";
  return exceptions;
}

TEST_P(Faults, TheNthAllocation) { EXPECT_GE(walk(GetParam(), FaultSite::allocation), 3); }

TEST_P(Faults, TheNthDriverCall) {
  const int exceptions = walk(GetParam(), FaultSite::driver_call);
  if (GetParam().kind == DeviceKind::cpu) {
    EXPECT_EQ(exceptions, 0);  // there's no driver
  } else {
    EXPECT_GE(exceptions, 8);
  }
}

// With an empty pool every block has to come from the driver, and a refusal is answered by trimming and asking again.
TEST_P(Faults, TheNthDriverCallWithAnEmptyPool) {
  if (GetParam().kind == DeviceKind::cpu) GTEST_SKIP() << "there's no driver";
  const std::vector<float> expected = expected_result();
  for (int n = 1; n < 200; ++n) {
    trim_memory(GetParam());
    FaultScope fault(FaultSite::driver_call, n);
    try {
      EXPECT_EQ(job(GetParam()), expected);
    } catch (const Error&) {
      EXPECT_TRUE(fault.fired());
    }
    if (!fault.fired()) return;
  }
  FAIL() << "more than 200 driver calls";
}

INSTANTIATE_TEST_SUITE_P(Devices, Faults, ::testing::ValuesIn(testing::kernel_devices()),
                         [](const auto& info) { return std::string(name_of(info.param.kind)); });

// Scratch memory of a CPU kernel that's refused inside a parallel loop.
int scratch_in_pieces(void** arguments) {
  const auto piece = [](void* context, int, uint8_t*) {
    void* memory = halide_malloc(context, 1000);
    if (memory == nullptr) return halide_error_out_of_memory(context);
    halide_free(context, memory);
    return 0;
  };
  return halide_do_par_for(testing::context_at(arguments), piece, 0, 16, nullptr);
}

TEST(Fault, ScratchOfAParallelKernel) {
  constexpr Argument arguments[] = {{"y", Argument::Role::output, 0, DType::f32, 1, -1}};
  const testing::HostKernel kernel("scratch_in_pieces", arguments, &scratch_in_pieces);
  const Tensor y = upload(ramp(10), Device::cpu());
  for (int n = 1; n <= 16; ++n) {
    FaultScope fault(FaultSite::allocation, n);
    EXPECT_THROW(kernel({}, {}, {y}), OutOfMemory) << n;
  }
  EXPECT_NO_THROW(kernel({}, {}, {y}));
}

}  // namespace
}  // namespace ashlar

// Memory refused inside a kernel, and how planted faults count. Whole jobs that fail everywhere: tests/faults.
#include <gtest/gtest.h>

#include <string>

#include "runtime/support/error.h"
#include "runtime/support/fault.h"
#include "tests/runtime/devices.h"
#include "tests/runtime/host_kernel.h"

namespace ashlar {
namespace {

using detail::FaultScope;
using detail::FaultSite;
using detail::FaultSpan;
using testing::ramp;
using testing::upload;

TEST(Fault, StrikesTheNthVisitOnceOrFromThenOn) {
  const auto visits = [](int64_t n, FaultSpan span) {
    const FaultScope fault(FaultSite::driver_call, n, span);
    std::string seen;
    for (int i = 0; i < 5; ++i) seen += detail::fault::strikes(FaultSite::driver_call) ? 'x' : '.';
    return seen + (fault.fired() ? " fired" : "");
  };
  EXPECT_EQ(visits(1, FaultSpan::once), "x.... fired");
  EXPECT_EQ(visits(3, FaultSpan::once), "..x.. fired");
  EXPECT_EQ(visits(3, FaultSpan::from_then_on), "..xxx fired");
  EXPECT_EQ(visits(6, FaultSpan::from_then_on), ".....");
  EXPECT_FALSE(detail::fault::strikes(FaultSite::driver_call));
}

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

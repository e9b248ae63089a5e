// What CUDA's row reductions read, without a GPU: before a launch the compiled code compares what it would read with
// the tensors' sizes. The stand-in driver (tests/runtime/fake_cuda.h) takes no compiled kernel, so that a call that
// passes this check ends there.
#include <gtest/gtest.h>

#include "ashlar/ops/row_family.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

template <class Call>
void expect_inside(const char* what, int64_t columns, Call call) {
  try {
    call();
    ADD_FAILURE() << what << ": the stand-in driver ran a compiled kernel";
  } catch (const DriverError&) {
  } catch (const Error& error) {
    ADD_FAILURE() << what << ", " << columns << " columns: " << error.what();
  }
}

TEST(CudaRowBounds, NothingIsReadBeyondAnyTensor) {
  const Device device = Device::parse("cuda");
  ASSERT_TRUE(device.is_available()) << "run it with ASHLAR_CUDA_LIBRARY=libfake_cuda.so";
  for (const int64_t columns :
       {1, 33, 64, 100, 250, 500, 1000, 1024, 1028, 2000, 5000, 8200, 12000, 20000, 40000, 65544}) {
    for (const DType dtype : {DType::f32, DType::f16}) {
      const Tensor x = Tensor::empty({3, columns}, dtype, device), gain = Tensor::empty({columns}, dtype, device);
      expect_inside("weighted_rows", columns, [&] { test_weighted_rows(x, gain, x); });
      if (dtype == DType::f16) continue;
      expect_inside("weighted_totals", columns, [&] { test_weighted_totals(x, gain); });
      expect_inside("masked_rows", columns, [&] { test_masked_rows(x); });
    }
  }
}

}  // namespace
}  // namespace ashlar

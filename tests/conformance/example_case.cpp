// The example of case.h, as it stands there: it compiles and passes, with its gradient.
#include <gtest/gtest.h>

#include <cmath>

#include "ashlar/ad.h"
#include "tests/conformance/check.h"
#include "tests/conformance/gradient.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

TEST(Example, OfTheHeaderPasses) {
  add_case(
      {.kernel = "exp",
       .name = "1023",
       .inputs = {{.shape = {1023}}},
       .call = [](Tensors x) { return std::vector{ashlar::exp(x[0])}; },
       .reference = [](HostTensors x) { return std::vector{pointwise(x[0], [](double v) { return std::exp(v); })}; },
       .tolerance = ulps(4),
       .differentiable = [](Vars x) { return ad::exp(x[0]); }});
  const Case& example = cases().back();
  for (const DType dtype : example.dtypes) {
    EXPECT_EQ(check_result(example, dtype, Device::cpu()), "");
    EXPECT_EQ(check_gradient(example, dtype, Device::cpu()), "");
  }
}

}  // namespace
}  // namespace ashlar::conformance

// The tests' own kernel with plans, at sizes and layouts for each of them; every plan runs wherever it can serve a
// case.
#include <cmath>

#include "ashlar/ops/plans.h"
#include "tests/conformance/case.h"
#include "tests/conformance/cases/cases.h"

namespace ashlar::conformance {
namespace {

Expected mirrored(const HostTensor& x) {
  Expected y{x.shape, {}, {}};
  const int64_t columns = x.shape[1];
  for (int64_t i = 0; i < x.shape.numel(); ++i) {
    const double a = x.values[static_cast<size_t>(i)],
                 b = x.values[static_cast<size_t>(i / columns * columns + columns - 1 - i % columns)];
    y.values.push_back(a + b);
    y.magnitudes.push_back(std::abs(a) + std::abs(b));
  }
  return y;
}

}  // namespace

void add_plan_cases() {
  const auto add = [](const std::string& name, Shape shape, Layout layout) {
    add_case({.kernel = "test_mirrored",
              .name = name,
              .inputs = {{.shape = std::move(shape), .layout = layout}},
              .dtypes = {DType::f32, DType::f16},
              .call = [](Tensors in) { return std::vector{test_mirrored(in[0])}; },
              .reference = [](HostTensors in) { return std::vector{mirrored(in[0])}; },
              .tolerance = ulps(1)});
  };
  for (const Shape& shape : {Shape{1, 1}, {5, 31}, {1, 32}, {3, 33}, {9, 64}, {130, 32}, {257, 96}, {65, 100}}) {
    add(shape.str(), shape, Layout::dense);
    add(shape.str() + "_transposed", shape, Layout::transposed);
  }
}

}  // namespace ashlar::conformance

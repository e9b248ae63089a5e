// The tests' own reduction by a merge: the first index of the smallest number.
#include <cmath>

#include "ashlar/ops/merged_reduction.h"
#include "runtime/support/error.h"
#include "tests/conformance/case.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

Reduced first_minimum_of(const std::vector<double>& x) {
  double best = -1;
  for (size_t k = 0; k < x.size(); ++k) {
    if (std::isnan(x[k]) || (best >= 0 && x[k] >= x[static_cast<size_t>(best)])) continue;
    best = static_cast<double>(k);
  }
  return {best, 0};
}

}  // namespace

void add_merged_reduction_cases() {
  for (const Shape& shape : {Shape{5, 1}, Shape{70, 33}, Shape{2, 70'001}, Shape{70'001, 2}, Shape{300, 130},
                             Shape{1, 140'001}, Shape{1500, 40}, Shape{1, 2049 * 4096}}) {
    for (const int axis : {0, 1}) {
      for (const auto& [name, pattern] :
           {std::pair{"uniform", Pattern::uniform}, {"ties", Pattern::integers}, {"special", Pattern::special}}) {
        const bool is_long = shape.numel() > 1'000'000;
        if (is_long && (axis == 0 || pattern != Pattern::uniform)) continue;
        add_case({.kernel = "test_first_minimum",
                  .name = shape.str() + "_over_" + std::to_string(axis) + "_" + name,
                  .inputs = {{shape, {pattern}}},
                  .dtypes = is_long ? std::vector{DType::f32} : std::vector{DType::f32, DType::f16},
                  .call = [axis](Tensors x) { return std::vector{test_first_minimum(x[0], {axis})}; },
                  .reference =
                      [axis](HostTensors x) {
                        const Shape& shape = x[0].shape;
                        if (shape[axis] == 0 && shape[1 - axis] > 0)
                          throw ShapeError("first_minimum", "none", "one", "");
                        Expected y = reduced(x[0], {axis}, false, first_minimum_of);
                        y.dtype = DType::i64;
                        return std::vector{y};
                      },
                  .tolerance = kExact});
      }
    }
  }
}

}  // namespace ashlar::conformance

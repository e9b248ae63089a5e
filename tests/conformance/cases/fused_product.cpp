// The tests' own kernel of a product with an epilogue: sizes for every plan of each target.
#include <cmath>

#include "ashlar/ops/fused_product.h"
#include "runtime/support/error.h"
#include "tests/conformance/case.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

Expected gated_product(HostTensors in) {
  constexpr double kScale = 0.5, kSteepest = 1.1;  // silu's slope is at most 1.0998
  // The kernel has no form that would know what a sum of nothing is.
  if (in[0].values.empty() && !in[2].values.empty()) throw ShapeError("gated_product", "k = 0", "one or more", "");
  Expected y = contracted(in[0], in[1], false, false, nullptr, Activation::none);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const double sum = y.values[i], residual = in[2].values[i];
    y.values[i] = residual + kScale * sum / (1 + std::exp(-sum));
    y.magnitudes[i] = std::abs(residual) + kScale * kSteepest * (y.magnitudes[i] + 1);
  }
  return y;
}

}  // namespace

void add_fused_product_cases() {
  struct Sizes {
    int64_t batch, m, k, n;
    Layout left = Layout::dense, right = Layout::dense;
  };
  for (const auto& [batch, m, k, n, left, right] : {Sizes{1, 1, 1, 1},
                                                    {1, 1, 300, 65},
                                                    {2, 3, 5, 7},
                                                    {1, 17, 33, 65},
                                                    {3, 64, 64, 64},
                                                    {1, 129, 100, 131},
                                                    {1, 256, 64, 512},
                                                    {1, 320, 40, 640},
                                                    {1, 1024, 48, 1024},
                                                    {2, 1025, 33, 515},
                                                    {1, 1, 256, 64, Layout::dense, Layout::transposed},
                                                    {1, 7, 256, 64, Layout::dense, Layout::transposed},
                                                    {1, 32, 512, 256, Layout::dense, Layout::transposed},
                                                    {1, 64, 512, 2048, Layout::dense, Layout::transposed},
                                                    {1, 256, 64, 256, Layout::dense, Layout::transposed},
                                                    {1, 256, 64, 256, Layout::transposed, Layout::transposed}}) {
    add_case({.kernel = "test_gated_product",
              .name = Shape{batch, m, k, n}.str() + (left == Layout::dense ? "n" : "t") +
                      (right == Layout::dense ? "n" : "t"),
              .inputs = {{.shape = {batch, m, k}, .layout = left},
                         {.shape = {batch, k, n}, .layout = right},
                         {.shape = {batch, m, n}}},
              .dtypes = {DType::f32, DType::f16},
              .call = [](Tensors in) { return std::vector{test_gated_product(in[0], in[1], in[2], 0.5)}; },
              .reference = [](HostTensors in) { return std::vector{gated_product(in)}; },
              .tolerance = terms()});
  }
}

}  // namespace ashlar::conformance

// low_rank_update, which nn's corrections call: sizes around a tile's and a stage's, operands along k and across.
#include <array>
#include <cmath>

#include "ashlar/ops.h"
#include "runtime/launch/launch.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

constexpr const char* kName = "low_rank_update";

Tensor call_update(Tensors in) {
  const Tensor &x = in[0], &left = in[1], &right = in[2], &share = in[3];
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device());
  launch(kernels::low_rank_update, {.elements = {DType::f32}}, std::array{x.contiguous(), left, right, share}, {},
         std::span(&y, 1));
  return y;
}

Expected updated(HostTensors in) {
  Expected y = contracted(in[1], in[2], false, false, nullptr, Activation::none);
  const double share = in[3].values[0];
  for (size_t i = 0; i < y.values.size(); ++i) {
    const double x = in[0].values[i];
    y.values[i] = x + share * y.values[i];
    y.magnitudes[i] = std::abs(x) + std::abs(share) * y.magnitudes[i];
  }
  return y;
}

Case update(int64_t batch, int64_t m, int64_t k, int64_t n, Layout left, Layout right) {
  const auto letter = [](Layout layout) { return layout == Layout::transposed ? "t" : "n"; };
  return {.kernel = kName,
          .name = Shape{batch, m, k, n}.str() + letter(left) + letter(right),
          .inputs = {{.shape = {batch, m, n}},
                     {.shape = {batch, m, k}, .layout = left},
                     {.shape = {batch, k, n}, .layout = right},
                     {.shape = {}}},
          .dtypes = {DType::f32},
          .call = [](Tensors in) { return std::vector{call_update(in)}; },
          .reference = [](HostTensors in) { return std::vector{updated(in)}; },
          .tolerance = terms(),
          .fixed_shapes = true,
          .vary =
              [](const Case&, Random& random) {
                const auto layout = [&] { return random.chance(0.5) ? Layout::transposed : Layout::dense; };
                return update(random.between(1, 3), random.between(1, 200), random.between(1, 80),
                              random.between(1, 200), layout(), layout());
              }};
}

}  // namespace

void add_low_rank_cases() {
  for (const Layout left : {Layout::dense, Layout::transposed}) {
    for (const Layout right : {Layout::dense, Layout::transposed}) {
      add_case(update(1, 1, 1, 1, left, right));
      add_case(update(2, 5, 3, 7, left, right));
      add_case(update(1, 64, 32, 32, left, right));
      add_case(update(3, 65, 16, 33, left, right));
      add_case(update(1, 129, 31, 100, left, right));
      add_case(update(1, 130, 68, 97, left, right));
      add_case(update(1, 1000, 32, 512, left, right));
    }
  }
}

}  // namespace ashlar::conformance

// The places of the elements that aren't zero: as many rows as the data say.
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/inputs.h"

namespace ashlar::conformance {
namespace {

Expected places(const HostTensor& x) {
  const int rank = x.shape.rank();
  Expected y{{0, rank}, {}, {}, DType::i64};
  size_t at = 0;
  for_each_index(x.shape, dense_strides(x.shape), [&](const Shape& index, int64_t) {
    if (x.values[at++] == 0) return;  // a NaN isn't
    y.shape[0]++;
    for (const int64_t i : index) y.values.push_back(static_cast<double>(i));
  });
  return y;
}

Case example(std::string name, Input input) {
  return {
      .kernel = "nonzero",
      .name = std::move(name),
      .inputs = {std::move(input)},
      .dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean},
      .call = [](Tensors x) { return std::vector{nonzero(x[0])}; },
      .reference = [](HostTensors x) { return std::vector{places(x[0])}; },
      .vary = any_rank,
      .size_from_elements = true};
}

}  // namespace

void add_nonzero_cases() {
  const Values some{Pattern::integers, 0, 1};
  for (const int64_t size : {0, 1, 31, 32, 33, 1023, 40000}) add_case(example(std::to_string(size), {{size}, some}));
  add_case(example("scalar", {{}, {Pattern::integers, 1, 1}}));
  add_case(example("none_is", {{5, 40}, {Pattern::integers, 0, 0}}));
  add_case(example("all_are", {{5, 40}, {Pattern::integers, 1, 1}}));
  add_case(example("one_in_200", {{100, 100}, {Pattern::integers, 0, 199}}));
  add_case(example("of_rank_4", {{3, 5, 7, 11}, some}));
  add_case(example("no_columns", {{7, 0}, some}));
  for (const Layout layout : {Layout::transposed, Layout::stepped, Layout::flipped, Layout::broadcast_first}) {
    add_case(example("view_" + std::to_string(static_cast<int>(layout)), {{33, 20}, some, layout}));
  }
  for (const Pattern pattern : {Pattern::special, Pattern::denormal}) {
    Case floats = example(pattern == Pattern::special ? "special" : "denormal", {{9, 35}, {pattern}});
    floats.dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64};
    add_case(floats);
  }
  Case large = example("16777216", {{16777216}, some});
  large.benchmark = true;
  large.dtypes = {DType::f32};
  add_case(large);
}

}  // namespace ashlar::conformance

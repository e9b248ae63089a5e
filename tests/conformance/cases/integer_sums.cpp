// sum of integers: added up in i64, exactly. Shorter integers are converted first.
#include <numeric>

#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

void add(std::string name, Input x, Axes axes, DType dtype = DType::i64) {
  add_case({.kernel = "sum",
            .name = std::string(name_of(dtype)) + "_" + std::move(name),
            .inputs = {std::move(x)},
            .dtypes = {dtype},
            .call = [axes](Tensors t) { return std::vector{sum(t[0], axes)}; },
            .reference =
                [axes](HostTensors t) {
                  Expected y = reduced(t[0], axes, /*keepdim=*/false, [](const std::vector<double>& group) {
                    return Reduced{std::accumulate(group.begin(), group.end(), 0.0), 0};
                  });
                  y.dtype = DType::i64;
                  return std::vector{std::move(y)};
                },
            .tolerance = kExact,
            .fixed_shapes = true});
}

}  // namespace

void add_integer_sum_cases() {
  const Values values{Pattern::integers, -100000, 100000};
  for (const int64_t n : {1, 17, 128, 257, 1025, 50257}) {
    add("rows_of_" + std::to_string(n), {{5, n}, values}, {-1});
    add("columns_of_" + std::to_string(n), {{n, 5}, values}, {0});
  }
  add("1x1000000", {{1, 1'000'000}, values}, {1});
  add("all_of_100003", {{100003}, values}, {});
  add("many_rows", {{4099, 3}, values}, {1});
  add("many_columns", {{3, 4099}, values}, {0});
  for (const Shape& shape : {Shape{3, 128}, Shape{257, 264}, Shape{70, 260}, Shape{70, 257}, Shape{2100, 520}}) {
    add("columns_of_" + std::to_string(shape[0]) + "x" + std::to_string(shape[1]), {shape, values}, {0});
  }
  add("middle_of_3x70x264", {{3, 70, 264}, values}, {1});
  add("columns_of_70x256_offset", {{70, 256}, values, Layout::offset}, {0});
  add("rows_flipped", {{9, 67}, values, Layout::flipped}, {1});
  add("empty_rows", {{5, 0}, values}, {1});
  add("rows_of_129", {{5, 129}, values}, {1}, DType::i32);
  add("rows_of_129", {{5, 129}, {Pattern::integers, 0, 255}}, {1}, DType::u8);
}

}  // namespace ashlar::conformance

// 8-bit integers and their scales: what they stand for lies within half a step of what was given.
#include <algorithm>
#include <cmath>

#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/many_rows.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

constexpr double kHalfStep = 0.5 / 127 + 1e-6;  // of the largest magnitude

// x itself, to be met within a part of each block's largest magnitude. Beside a number that isn't finite all are NaN.
Expected nearly(const HostTensor& x, int64_t block) {
  Expected y{x.shape, x.values, x.values, DType::f32};
  const auto size = static_cast<size_t>(block);
  for (size_t first = 0; first < x.values.size(); first += size) {
    double largest = 0;
    for (size_t i = first; i < first + size; ++i) largest = max_of(largest, std::abs(x.values[i]));
    for (size_t i = first; i < first + size; ++i) {
      y.magnitudes[i] = largest;
      if (!std::isfinite(largest)) y.values[i] = y.magnitudes[i] = NAN;
    }
  }
  return y;
}

void add_rows(const std::string& name, const Shape& shape, const Values& values = {}) {
  add_case({.kernel = "quantize_rows",
            .name = name,
            .inputs = {{shape, values}},
            .call =
                [](Tensors in) {
                  const auto [values, scale] = quantize_rows(in[0]);
                  return std::vector{mul(values.to(DType::f32), scale.reshape({in[0].size(0), 1}))};
                },
            .reference = [](HostTensors in) { return std::vector{nearly(in[0], in[0].shape.back())}; },
            .tolerance = terms(kHalfStep)});
}

void add_blocks(Input x, int64_t block) {
  add_case({.kernel = "quantize_int8",
            .name = x.shape.str() + " in blocks of " + std::to_string(block) + " as " +
                    std::to_string(static_cast<int>(x.layout)),
            .inputs = {x},
            .call =
                [block](Tensors in) {
                  const auto [values, scale] = quantize_int8(in[0], block);
                  return std::vector{dequantize_int8(values, scale)};
                },
            .reference =
                [block](HostTensors in) {
                  const int64_t last = in[0].shape.rank() == 0 ? 1 : in[0].shape.back();
                  return std::vector{nearly(in[0], block == 0 ? last : block)};
                },
            .tolerance = terms(kHalfStep),
            .fixed_shapes = true});
}

Expected products(HostTensors in) {
  Expected y{in[0].shape, {}, {}, DType::f32};
  const size_t block = in[1].values.empty() ? 1 : in[0].values.size() / in[1].values.size();
  for (size_t i = 0; i < in[0].values.size(); ++i) y.values.push_back(in[0].values[i] * in[1].values[i / block]);
  return y;
}

void add_products(const char* kernel, const Shape& values, const Shape& scale) {
  const bool is_kernel = std::string_view(kernel) == "dequantize_rows";
  add_case({.kernel = kernel,
            .name = values.str() + " by " + scale.str(),
            .inputs = {{values, {Pattern::integers, -128, 127}}, {.shape = scale, .dtype = DType::f32}},
            .dtypes = {DType::i8},
            .call =
                [is_kernel](Tensors in) {
                  return std::vector{is_kernel ? dequantize_rows(in[0], in[1]) : dequantize_int8(in[0], in[1])};
                },
            .reference = [](HostTensors in) { return std::vector{products(in)}; },
            .tolerance = ulps(1),
            .fixed_shapes = !is_kernel});
}

}  // namespace

void add_quantize_cases() {
  for (const int64_t n :
       {1,    3,    8,    17,    33,    64,    72,    128,   256, 264, 513, 1024, 1025, 1032, 2048, 4096,
        4099, 8192, 8200, 12000, 20000, 40000, 40001, 65544, 101, 203, 301, 2047, 2051, 8191, 16383}) {
    add_rows("rows_of_" + std::to_string(n), {n < 1000 ? 37 : 3, n});
  }
  add_rows("4099_rows_of_48", {4099, 48});
  for (const Shape& shape : kManyRows) add_rows(name_of_rows(shape), shape);
  add_rows("no_rows", {0, 48});
  add_rows("zeros", {4, 100}, {Pattern::integers, 0, 0});
  for (const int64_t n : {3, 130, 1024, 9000}) {
    add_rows("special_rows_of_" + std::to_string(n), {n < 1000 ? 70 : 3, n}, {Pattern::special});
  }
  for (const int64_t block : {0, 1, 32, 96}) add_blocks({.shape = {3, 5, 192}}, block);
  add_blocks({.shape = {}}, 0);
  add_blocks({.shape = {4, 0}}, 0);
  for (const Layout layout : {Layout::offset, Layout::transposed, Layout::flipped, Layout::stepped}) {
    add_blocks({.shape = {6, 64}, .layout = layout}, 16);
  }
  for (const int64_t n : {1, 3, 32, 100, 1024, 5000}) add_products("dequantize_rows", {7, n}, {7});
  add_products("dequantize_rows", {3000, 64}, {3000});
  add_products("dequantize_int8", {3, 5, 192}, {3, 5, 6});
  add_products("dequantize_int8", {64}, {1});
}

}  // namespace ashlar::conformance

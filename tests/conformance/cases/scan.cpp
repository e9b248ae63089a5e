// y = scan(x, axis): running sums, products, extrema and sums of exponentials.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/forms/rows.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

using Row = std::vector<double>;

void running_sum(const Row& x, double* y, double* magnitude) {
  double sum = 0, magnitudes = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = sum += x[i];
    magnitudes += std::abs(x[i]);
    // On the CPU eights are added one after the other.
    magnitude[i] = magnitudes * one_sided_rounding(static_cast<double>(i) / 8, terms().bound);
  }
}

Case with_other_axis(const Case& like, Random& random);

Case example(std::string name, Input input, int64_t axis = -1) {
  return {.kernel = "cumsum",
          .name = std::move(name),
          .inputs = {std::move(input)},
          .dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64},
          .call = [axis](Tensors x) { return std::vector{cumsum(x[0], axis)}; },
          .reference = [axis](HostTensors x) { return std::vector{row_wise(x[0], axis, running_sum)}; },
          .tolerance = terms(),
          .vary = with_other_axis};
}

Case differentiable_example(std::string name, Input input, int64_t axis = -1) {
  Case item = example(std::move(name), std::move(input), axis);
  item.differentiable = [axis](Vars x) { return ad::cumsum(x[0], axis); };
  return item;
}

// Any rank of 1 or more and any axis, counted from either end.
Case with_other_axis(const Case& like, Random& random) {
  const int rank = static_cast<int>(random.pick<int64_t>({1, 2, 2, 2, 3, 3, 4, 6}));
  const int64_t axis = random.chance(0.5) ? -1 : random.between(-rank, rank - 1);
  Input input = like.inputs[0];
  input.shape = symbols(rank, random);
  const std::string name = "along " + std::to_string(axis);
  Case item = like.differentiable ? differentiable_example(name, input, axis) : example(name, input, axis);
  item.dtypes = like.dtypes;
  item.tolerance = like.tolerance;
  return item;
}

// Each factor rounds once, and all of them the same way where they are equal.
void running_product(const Row& x, double* y, double* magnitude) {
  double product = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = product *= x[i];
    const auto factors = static_cast<double>(i);
    magnitude[i] =
        std::abs(product) * std::max(1 + std::sqrt(factors) / 30, one_sided_rounding(factors, terms().bound));
  }
}

Case product_example(std::string name, Input input, int64_t axis = -1) {
  if (input.values.pattern == Pattern::uniform) input.values = {.low = 0.99, .high = 1.01};
  Case item{.kernel = "cumprod",
            .name = std::move(name),
            .inputs = {std::move(input)},
            .call = [axis](Tensors x) { return std::vector{cumprod(x[0], axis)}; },
            .reference = [axis](HostTensors x) { return std::vector{row_wise(x[0], axis, running_product)}; },
            .tolerance = terms(),
            .differentiable = [axis](Vars x) { return ad::cumprod(x[0], axis); },
            .gradient_dtypes = {DType::f32}};
  if (item.inputs[0].shape.numel() > 100 || item.inputs[0].values.pattern == Pattern::special) item.differentiable = {};
  item.is_drawn = !item.differentiable;  // long products differ by more than differences of values can tell
  return item;
}

// The last of equal ones; from the first NaN on NaN, at the last NaN.
template <bool is_maximum>
void running_extremum(const Row& x, double* y, double* at) {
  size_t best = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i == 0 || std::isnan(x[i]) || (is_maximum ? x[i] >= x[best] : x[i] <= x[best])) best = i;
    y[i] = x[best];
    at[i] = static_cast<double>(best);
  }
}

template <bool is_maximum>
auto extrema(const Tensor& x, int64_t axis) {
  if constexpr (is_maximum)
    return cummax(x, axis);
  else
    return cummin(x, axis);
}
template <bool is_maximum>
auto extrema(const Var& x, int64_t axis) {
  if constexpr (is_maximum)
    return ad::cummax(x, axis);
  else
    return ad::cummin(x, axis);
}

template <bool is_maximum>
Case extremum_example(std::string name, Input input, int64_t axis = -1) {
  return {.kernel = is_maximum ? "cummax" : "cummin",
          .name = std::move(name),
          .inputs = {std::move(input)},
          .call =
              [axis](Tensors x) {
                const auto [values, indices] = extrema<is_maximum>(x[0], axis);
                return std::vector{values, indices};
              },
          .reference =
              [axis](HostTensors x) {
                const Expected both = row_wise(x[0], axis, running_extremum<is_maximum>);
                return std::vector{Expected{both.shape, both.values},
                                   Expected{both.shape, both.magnitudes, {}, DType::i64}};
              },
          .tolerance = ulps(0)};
}

template <bool is_maximum>
Case extremum_gradient() {
  Case item = extremum_example<is_maximum>("gradient", {{5, 6}, {Pattern::distinct, -2, 2}}, 0);
  item.call = [](Tensors x) { return std::vector{extrema<is_maximum>(x[0], 0).values}; };
  item.reference = [](HostTensors x) {
    const Expected both = row_wise(x[0], 0, running_extremum<is_maximum>);
    return std::vector{Expected{both.shape, both.values}};
  };
  item.differentiable = [](Vars x) { return extrema<is_maximum>(x[0], 0).values; };
  item.gradient_dtypes = {DType::f32};
  return item;
}

// A sum of e^x rounds where it is large; so does its logarithm.
void running_log_sum(const Row& x, double* y, double* magnitude) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  const auto scaled = [](double value, double by) { return value == by ? 1 : std::exp(value - by); };
  for (size_t i = 0; i < x.size(); ++i) {
    const double next = max_of(largest, x[i]);
    sum = sum * scaled(largest, next) + scaled(x[i], next);
    largest = next;
    y[i] = largest + std::log(sum);
    magnitude[i] = 1 + std::abs(y[i]);
  }
}

Case log_sum_example(std::string name, Input input, int64_t axis = -1) {
  Case item{.kernel = "logcumsumexp",
            .name = std::move(name),
            .inputs = {std::move(input)},
            .call = [axis](Tensors x) { return std::vector{logcumsumexp(x[0], axis)}; },
            .reference = [axis](HostTensors x) { return std::vector{row_wise(x[0], axis, running_log_sum)}; },
            .tolerance = terms(),
            .differentiable = [axis](Vars x) { return ad::logcumsumexp(x[0], axis); },
            .gradient_dtypes = {DType::f32}};
  if (item.inputs[0].shape.numel() > 10'000 || item.inputs[0].values.pattern != Pattern::uniform)
    item.differentiable = {};
  return item;
}

// What logcumsumexp's gradient calls: dx from the last column on. in: dy, x, y
Case log_sum_gradient(const Shape& shape, Pattern pattern) {
  return {.kernel = "logcumsumexp_grad",
          .name = shape.str() + (pattern == Pattern::special ? "_special" : ""),
          .inputs = {{.shape = shape, .values = {pattern}},
                     {.shape = shape, .values = {.low = -20, .high = 20}},
                     {.shape = shape, .values = {.low = -20, .high = 20}}},
          .dtypes = {DType::f32},
          .call = [](Tensors in) { return forms::rows(ashlar::kernels::logcumsumexp_grad, in, -1); },
          .reference =
              [](HostTensors in) {
                Expected dx{in[0].shape, in[0].values, in[0].values};
                const auto columns = static_cast<size_t>(in[0].shape[1]);
                double sum = 0, terms = 0;
                for (size_t i = 0; i < dx.values.size(); ++i) {
                  const size_t c = i % columns, at = i - c + columns - 1 - c;
                  if (c == 0) sum = terms = 0;
                  const double dy = in[0].values[at], scale = std::exp(-in[2].values[at]);
                  sum += dy * scale, terms += std::abs(dy) * scale;
                  dx.values[i] = std::exp(in[1].values[at]) * sum;
                  dx.magnitudes[i] = std::exp(in[1].values[at]) * terms;
                }
                return std::vector{dx};
              },
          .tolerance = terms(1e-4)};
}

void add_products_and_extrema() {
  const auto maximum = extremum_example<true>, minimum = extremum_example<false>;
  for (const int64_t n : {1, 2, 9, 33, 513, 2049, 9001}) {
    for (const bool is_rows : {true, false}) {
      const Shape shape = is_rows ? Shape{3, n} : Shape{n, 3};
      const std::string name = (is_rows ? "rows_of_" : "columns_of_") + std::to_string(n);
      const int64_t axis = is_rows ? -1 : 0;
      add_case(product_example(name, {.shape = shape}, axis));
      add_case(log_sum_example(name, {.shape = shape}, axis));
      for (const auto& extremum : {maximum, minimum}) {
        add_case(extremum(name, {.shape = shape}, axis));
        add_case(extremum("ties_" + name, {shape, {Pattern::integers, -9, 9}}, is_rows ? 1 : -2));
      }
    }
  }
  for (const auto& add : {product_example, maximum, minimum, log_sum_example}) {
    add_case(add("rank0", {.shape = {}}, -1));
    add_case(add("no_columns", {.shape = {5, 0}}, -1));
    add_case(add("middle", {.shape = {3, 7, 5}, .layout = Layout::transposed}, 1));
    add_case(add("special", {{70, 33}, {Pattern::special}}, -1));
    add_case(add("special_long", {{2, 5000}, {Pattern::special}}, -1));
  }
  for (const auto& add : {product_example, maximum, minimum}) {
    Case integers = add("whole_numbers", {{5, 70}, {Pattern::integers, -1, 1}}, -1);
    integers.dtypes = {DType::i64};
    integers.differentiable = {};
    integers.tolerance = kExact;
    add_case(integers);
  }
  for (const auto& add : {maximum, minimum, log_sum_example}) {
    // Groups of blocks, one in 64 a number, and the views that a row may be.
    for (const int64_t n : {131'072, 131'073, 300'000}) {
      add_case(add("long_rows_of_" + std::to_string(n), {.shape = {2, n}}, -1));
    }
    add_case(add("many_rows", {.shape = {4099, 3}}, -1));
    add_case(add("no_rows", {.shape = {0, 5}}, -1));
    add_case(add("masked", {{70, 33}, {Pattern::masked}}, -1));
    add_case(add("masked_long", {{3, 5000}, {Pattern::masked}}, -1));
    for (const auto& [name, layout] : {std::pair{"stepped", Layout::stepped},
                                       {"flipped", Layout::flipped},
                                       {"broadcast_first", Layout::broadcast_first},
                                       {"broadcast_last", Layout::broadcast_last}}) {
      add_case(add(std::string("9x67_") + name, {.shape = {9, 67}, .layout = layout}, -1));
    }
  }
  // What is beyond e^x's range, on either side.
  add_case(log_sum_example("huge", {{9, 700}, {Pattern::huge}}));
  add_case(log_sum_example("steep", {{9, 700}, {.low = -900, .high = 900}}));
  for (const int64_t n : {1, 33, 512, 513, 2049, 5000, 140'000}) {
    add_case(log_sum_gradient({3, n}, Pattern::uniform));
  }
  add_case(log_sum_gradient({0, 5}, Pattern::uniform));
  add_case(log_sum_gradient({70, 33}, Pattern::special));
  // Products with a 0, and with several, have gradients too.
  add_case(product_example("gradient_with_zeros", {{12, 5}, {Pattern::integers, -2, 2}}));
  add_case(extremum_gradient<true>());
  add_case(extremum_gradient<false>());
}

}  // namespace

void add_scan_cases() {
  add_products_and_extrema();
  // Around a thread's columns, a short row, a block and a group of blocks.
  for (const int64_t n : {1, 2, 7, 8, 9, 31, 33, 255, 511, 512, 513, 1024, 2047, 2048, 2049, 4096, 5000, 33000}) {
    add_case(example("rows_of_" + std::to_string(n), {.shape = {5, n}}));
    add_case(example("columns_of_" + std::to_string(n), {.shape = {n, 3}}, 0));
  }
  for (const int64_t n : {131071, 131072, 131073, 300'000}) {
    add_case(example("long_rows_of_" + std::to_string(n), {.shape = {2, n}}));
  }
  add_case(example("1000003", {.shape = {1'000'003}}));
  add_case(example("many_rows", {.shape = {4099, 3}}));
  add_case(example("rank0", {.shape = {}}, 0));
  add_case(example("middle_of_3x70x33", {.shape = {3, 70, 33}}, 1));
  add_case(example("no_rows", {.shape = {0, 5}}));
  add_case(example("no_columns", {.shape = {5, 0}}));
  for (const auto& [name, layout] : {std::pair{"offset", Layout::offset},
                                     {"stepped", Layout::stepped},
                                     {"flipped", Layout::flipped},
                                     {"transposed", Layout::transposed},
                                     {"broadcast_first", Layout::broadcast_first},
                                     {"broadcast_last", Layout::broadcast_last}}) {
    add_case(example(std::string("9x67_") + name, {.shape = {9, 67}, .layout = layout}));
    add_case(example(std::string("9x67_along_0_") + name, {.shape = {9, 67}, .layout = layout}, 0));
  }
  add_case(example("special", {{70, 33}, {Pattern::special}}));
  add_case(example("special_rows_of_5000", {{3, 5000}, {Pattern::special}}));
  for (const Shape& shape : {Shape{70, 33}, Shape{3, 5000}, Shape{2, 140'000}}) {
    Case item = example("integers_" + shape.str(), {shape, {Pattern::integers, -100, 100}});
    item.dtypes = {DType::i32, DType::i64};
    item.tolerance = kExact;
    add_case(item);
  }
  add_case(differentiable_example("gradient_rank0", {.shape = {}}, 0));
  add_case(differentiable_example("gradient_rows", {{4, 9}, {Pattern::distinct, -2, 2}}));
  add_case(differentiable_example("gradient_middle", {{3, 5, 4}, {Pattern::distinct, -2, 2}}, 1));
  add_case(differentiable_example("gradient_rows_of_2100", {{2, 2100}, {Pattern::distinct, -2, 2}}));

  for (const auto& [name, shape] :
       {std::pair{"16384x1024", Shape{16384, 1024}}, {"262144x64", Shape{262144, 64}}, {"16M", Shape{1 << 24}}}) {
    Case bench = example(name, {.shape = shape});
    bench.benchmark = true;
    bench.tolerance = terms(1e-4);
    add_case(bench);
  }
}

}  // namespace ashlar::conformance

// The tests' own kernels whose schedule is generic(target, …), at sizes around every branch of it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ashlar/ops/generic.h"
#include "runtime/support/error.h"
#include "tests/conformance/case.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

// Reductions leave open what nothing at all gives.
void refuse_empty(const HostTensor& x, int64_t results) {
  if (x.values.empty() && results > 0) throw ShapeError("reference", "nothing to reduce", "one or more", "");
}

// Σ over axis `axis` of a rank-3 tensor.
Expected sum_over(const HostTensor& x, int axis) {
  const int64_t sizes[] = {x.shape[0], x.shape[1], x.shape[2]};
  Expected y;
  y.dtype = DType::f32;
  y.shape = axis == 2 ? Shape{sizes[0], sizes[1]} : Shape{sizes[0], sizes[2]};
  refuse_empty(x, y.shape.numel());
  std::vector<SequentialSum> sums(static_cast<size_t>(y.shape.numel()));
  for (size_t i = 0; i < x.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t inner = at % sizes[2], middle = at / sizes[2] % sizes[1], outer = at / sizes[2] / sizes[1];
    sums[static_cast<size_t>(axis == 2 ? outer * sizes[1] + middle : outer * sizes[2] + inner)].add(x.values[i]);
  }
  for (const SequentialSum& sum : sums)
    y.values.push_back(sum.total), y.magnitudes.push_back(sum.magnitude(terms().bound));
  return y;
}

// mean, squared distances from it, and the largest distance, of one row
struct Moments {
  double mean = 0, squares = 0, farthest = 0, magnitude = 0;
};
Moments moments(const double* row, size_t columns) {
  Moments m;
  SequentialSum sum;
  for (size_t k = 0; k < columns; ++k) sum.add(row[k]);
  m.mean = sum.total / static_cast<double>(columns);
  m.magnitude = sum.magnitude(terms().bound) / static_cast<double>(columns);
  for (size_t k = 0; k < columns; ++k) {
    m.squares += (row[k] - m.mean) * (row[k] - m.mean);
    m.farthest = std::max(m.farthest, std::abs(row[k] - m.mean));
  }
  return m;
}

std::vector<Expected> outputs(HostTensors in) {
  const HostTensor& x = in[0];
  const auto rows = static_cast<size_t>(x.shape[0]), columns = static_cast<size_t>(x.shape[1]);
  refuse_empty(x, 1);
  Expected average, farthest, distance;
  average.shape = {x.shape[0]};
  distance.shape = {x.shape[0], x.shape[1] + 1};
  double largest = 0;
  for (size_t r = 0; r < rows; ++r) {
    const Moments m = moments(&x.values[r * columns], columns);
    average.values.push_back(m.mean), average.magnitudes.push_back(m.magnitude);
    largest = std::max(largest, m.farthest);
    for (size_t c = 0; c <= columns; ++c) {
      const double v = c < columns ? x.values[r * columns + c] : 0;
      distance.values.push_back(c < columns ? std::abs(v - m.mean) : 0);
      distance.magnitudes.push_back(std::abs(v) + m.magnitude);
    }
  }
  farthest.values = {largest};
  farthest.magnitudes = {largest + 2};
  return {average, farthest, distance};
}

std::vector<Expected> welford(HostTensors in) {
  const HostTensor& x = in[0];
  const auto rows = static_cast<size_t>(x.shape[0]), columns = static_cast<size_t>(x.shape[1]);
  refuse_empty(x, x.shape[0]);
  Expected variance, standard;
  variance.shape = {x.shape[0]};
  standard.shape = x.shape;
  // The recurrence stays in order, so that its error grows with the row.
  const double steps = 1 + static_cast<double>(columns) / 5e4;
  for (size_t r = 0; r < rows && columns > 0; ++r) {
    const Moments m = moments(&x.values[r * columns], columns);
    const double of_row = m.squares / static_cast<double>(columns);
    variance.values.push_back(of_row), variance.magnitudes.push_back((of_row + 1) * steps);
    for (size_t c = 0; c < columns; ++c) {
      const double v = x.values[r * columns + c];
      standard.values.push_back((v - m.mean) / std::sqrt(of_row + 1));
      standard.magnitudes.push_back((std::abs(v) + m.magnitude) * steps);
    }
  }
  return {variance, standard};
}

constexpr double kRunningTolerance = 1e-4, kEight = 8;  // a scan adds eights one after the other on the CPU

Expected running(const HostTensor& x) {
  Expected y{x.shape, {}, {}};
  const auto columns = static_cast<size_t>(x.shape[1]);
  double total = 0, magnitude = 0;
  for (size_t i = 0; i < x.values.size(); ++i) {
    if (i % columns == 0) total = magnitude = 0;
    total += x.values[i], magnitude += std::abs(x.values[i]);
    const double rounding = one_sided_rounding(static_cast<double>(i % columns), kRunningTolerance);
    y.values.push_back(2 * total), y.magnitudes.push_back(2 * magnitude * rounding);
  }
  return y;
}

Expected scanned(const HostTensor& x) {
  Expected y{x.shape, {}, {}};
  const auto columns = static_cast<size_t>(x.shape[1]);
  double total = 0, magnitude = 0;
  for (size_t i = 0; i < x.values.size(); ++i) {
    if (i % columns == 0) total = magnitude = 0;
    total += x.values[i] - 0.5, magnitude += std::abs(x.values[i] - 0.5);
    const double rounding = one_sided_rounding(static_cast<double>(i % columns) / kEight, kRunningTolerance);
    y.values.push_back(x.values[i] + 2 * total);
    y.magnitudes.push_back(std::abs(x.values[i]) + 2 * magnitude * rounding);
  }
  return y;
}

// Directions lose a last digit with each merge.
Expected turtle(const HostTensor& x) {
  Expected y{x.shape, {}, {}};
  const auto columns = static_cast<size_t>(x.shape[1]);
  double direction = 0, east = 0;
  for (size_t i = 0; i < x.values.size(); ++i) {
    if (i % columns == 0) direction = east = 0;
    direction += x.values[i] / 2, east += std::cos(direction);
    y.values.push_back(east), y.magnitudes.push_back(static_cast<double>(i % columns + 1));
  }
  return y;
}

Expected softmax_of(const HostTensor& x) {
  return row_wise(x, 1, [](const std::vector<double>& row, double* y, double* magnitude) {
    if (row.empty()) return;
    const double largest = *std::max_element(row.begin(), row.end());
    SequentialSum sum;
    for (const double v : row) sum.add(std::exp(v - largest));
    const double rounding = sum.magnitude(terms().bound) / sum.terms;
    for (size_t c = 0; c < row.size(); ++c) {
      y[c] = std::exp(row[c] - largest) / sum.total;
      magnitude[c] = y[c] * rounding;
    }
  });
}

}  // namespace

void add_generic_cases() {
  for (const int64_t size : {0, 1, 7, 1024, 1027, 40000}) {
    add_case({.kernel = "test_generic_silu",
              .name = std::to_string(size),
              .inputs = {{.shape = {size}}},
              .dtypes = {DType::f32, DType::f16},
              .call = [](Tensors in) { return std::vector{test_generic_silu(in[0])}; },
              .reference =
                  [](HostTensors in) {
                    return std::vector{pointwise(in[0], [](double x) { return x / (1 + std::exp(-x)); })};
                  },
              .tolerance = ulps(8)});
    add_case({.kernel = "test_generic_rotate",
              .name = std::to_string(size),
              .inputs = {{.shape = {size}}, {.shape = {size}}},
              .dtypes = {DType::f32},
              .call =
                  [](Tensors in) {
                    test_generic_rotate(in[0], in[1]);
                    return std::vector{in[0], in[1]};
                  },
              .reference =
                  [](HostTensors in) {
                    return std::vector{broadcasted(in[0], in[1], [](double a, double b) { return a + b; }),
                                       broadcasted(in[0], in[1], [](double a, double b) { return a - b; })};
                  },
              .tolerance = ulps(1),
              .in_place = true});
  }
  const std::pair<Shape, Shape> operands[] = {{{0, 3}, {3}},         {{1}, {1}},         {{64, 512}, {64, 512}},
                                              {{5, 513}, {5, 1}},    {{5, 513}, {513}},  {{3, 5, 7}, {5, 1}},
                                              {{2, 3, 5, 64}, {64}}, {{40, 4}, {40, 4}}, {{1, 600}, {7, 600}},
                                              {{5, 1}, {5, 512}}};
  for (const auto& [a, b] : operands) {
    for (const Layout layout : {Layout::dense, Layout::transposed, Layout::offset}) {
      add_case({.kernel = "test_generic_add",
                .name = std::to_string(a.numel()) + "_and_" + std::to_string(b.numel()) + "_" +
                        std::to_string(static_cast<int>(layout)),
                .inputs = {{.shape = a, .layout = layout}, {.shape = b}},
                .dtypes = {DType::f32, DType::f16},
                .call = [](Tensors in) { return std::vector{test_generic_add(in[0], in[1])}; },
                .reference =
                    [](HostTensors in) {
                      return std::vector{broadcasted(in[0], in[1], [](double x, double y) { return x + y; })};
                    },
                .tolerance = ulps(1)});
    }
  }
  const Shape to_sum[] = {{0, 3, 4},    {1, 1, 1},  {1, 1, 5000}, {2, 9, 3},    {3, 7, 40},   {5, 3, 257},
                          {2, 1500, 3}, {1, 70, 1}, {2, 67, 129}, {300, 33, 9}, {1, 5000, 33}};
  for (const Shape& shape : to_sum) {
    const std::string name = std::to_string(shape[0]) + "x" + std::to_string(shape[1]) + "x" + std::to_string(shape[2]);
    add_case({.kernel = "test_generic_row_sum",
              .name = name,
              .inputs = {{.shape = shape}},
              .dtypes = {DType::f32, DType::f16},
              .call = [](Tensors in) { return std::vector{test_generic_row_sum(in[0])}; },
              .reference = [](HostTensors in) { return std::vector{sum_over(in[0], 2)}; },
              .tolerance = terms()});
    add_case({.kernel = "test_generic_column_sum",
              .name = name,
              .inputs = {{.shape = shape}},
              .dtypes = {DType::f32, DType::f16},
              .call = [](Tensors in) { return std::vector{test_generic_column_sum(in[0])}; },
              .reference = [](HostTensors in) { return std::vector{sum_over(in[0], 1)}; },
              .tolerance = terms()});
  }
  const Shape matrices[] = {{0, 5}, {1, 1}, {1, 2500}, {7, 31}, {9, 64}, {33, 257}, {300, 3}};
  for (const Shape& shape : matrices) {
    const std::string name = std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
    add_case({.kernel = "test_generic_softmax",
              .name = name,
              .inputs = {{.shape = shape}},
              .dtypes = {DType::f32},
              .call = [](Tensors in) { return std::vector{test_generic_softmax(in[0])}; },
              .reference = [](HostTensors in) { return std::vector{softmax_of(in[0])}; },
              .tolerance = terms()});
    add_case({.kernel = "test_generic_running",
              .name = name,
              .inputs = {{.shape = shape}},
              .dtypes = {DType::f32},
              .call = [](Tensors in) { return std::vector{test_generic_running(in[0])}; },
              .reference = [](HostTensors in) { return std::vector{running(in[0])}; },
              .tolerance = terms(kRunningTolerance)});
    add_case({.kernel = "test_generic_welford",
              .name = name,
              .inputs = {{.shape = shape}},
              .dtypes = {DType::f32},
              .call =
                  [](Tensors in) {
                    const auto [variance, standard] = test_generic_welford(in[0]);
                    return std::vector{variance, standard};
                  },
              .reference = welford,
              .tolerance = terms(1e-4)});
    if (shape[0] == 0) continue;
    add_case({.kernel = "test_generic_outputs",
              .name = name,
              .inputs = {{.shape = shape}},
              .dtypes = {DType::f32},
              .call =
                  [](Tensors in) {
                    const auto [average, farthest, distance] = test_generic_outputs(in[0]);
                    return std::vector{average, farthest, distance};
                  },
              .reference = outputs,
              .tolerance = terms()});
  }
  // Around a short row, a block and a group of blocks.
  const Shape scans[] = {{0, 5},    {5, 0},    {1, 1},    {3, 7},      {5, 512},  {5, 513},
                         {2, 2048}, {3, 2049}, {4099, 3}, {1, 131073}, {2, 5000}, {2, 300000}};
  for (const Shape& shape : scans) {
    add_case({.kernel = "test_generic_scan",
              .name = std::to_string(shape[0]) + "x" + std::to_string(shape[1]),
              .inputs = {{.shape = shape}},
              .dtypes = {DType::f32},
              .call = [](Tensors in) { return std::vector{test_generic_scan(in[0])}; },
              .reference = [](HostTensors in) { return std::vector{scanned(in[0])}; },
              .tolerance = terms(kRunningTolerance)});
  }
  // The same around smaller blocks, since a state has four values.
  const Shape paths[] = {{0, 5},    {5, 0},    {1, 1},    {3, 7},     {5, 511},  {5, 513},   {2, 1023},
                         {3, 1024}, {3, 1025}, {4099, 3}, {1, 65537}, {2, 5000}, {2, 200000}};
  for (const Shape& shape : paths) {
    add_case({.kernel = "test_generic_turtle",
              .name = std::to_string(shape[0]) + "x" + std::to_string(shape[1]),
              .inputs = {{.shape = shape}},
              .dtypes = {DType::f32},
              .call = [](Tensors in) { return std::vector{test_generic_turtle(in[0])}; },
              .reference = [](HostTensors in) { return std::vector{turtle(in[0])}; },
              .tolerance = terms(kRunningTolerance)});
  }
  for (const int64_t size : {1, 100, 3000}) {
    add_case({.kernel = "test_generic_histogram",
              .name = std::to_string(size),
              .inputs = {{.shape = {size}, .values = {Pattern::integers, 0, 12}}, {.shape = {13}, .dtype = DType::f32}},
              .dtypes = {DType::i32},
              .call = [](Tensors in) { return std::vector{test_generic_histogram(in[0], in[1])}; },
              .reference =
                  [](HostTensors in) {
                    Expected y;
                    y.shape = in[1].shape;
                    y.values.assign(in[1].values.size(), 0);
                    if (y.values.empty()) return std::vector{y};
                    refuse_empty(in[0], 1);
                    const double last = static_cast<double>(y.values.size()) - 1;
                    for (const double v : in[0].values) y.values[static_cast<size_t>(std::clamp(v, 0.0, last))] += 1;
                    return std::vector{y};
                  }});
  }
}

}  // namespace ashlar::conformance

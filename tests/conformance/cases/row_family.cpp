// The tests' own kernels of the row reductions' family, at sizes around every shape of it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ashlar/ops/row_family.h"
#include "runtime/support/error.h"
#include "tests/conformance/case.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/many_rows.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

constexpr double kLeast = -std::numeric_limits<double>::infinity();

// Of columns that are and aren't whole vectors, at and around the sizes that a thread, a warp and a block take.
constexpr int64_t kColumns[] = {1,    3,     16,   33,   64,   72,    100,   136,   250,   264,  500,
                                512,  1000,  1024, 1028, 1032, 1501,  2000,  2051,  2056,  5000, 5001,
                                8191, 16383, 8192, 8200, 9001, 12000, 20000, 40000, 40001, 65544};

Expected weighted_rows(HostTensors in) {
  const auto &x = in[0].values, &gain = in[1].values, &w = in[2].values;
  const size_t columns = gain.size();
  Expected y;
  y.shape = in[0].shape;
  for (size_t first = 0; first < x.size(); first += columns) {
    double largest = kLeast, total = 0, magnitude = 0;
    for (size_t k = 0; k < columns; ++k) {
      largest = std::max(largest, x[first + k] + gain[k]);
      total += x[first + k] * gain[k] + w[first + k];
      magnitude += std::abs(x[first + k] * gain[k]) + std::abs(w[first + k]);
    }
    for (size_t c = 0; c < columns; ++c) {
      const double scaled = x[first + c] * gain[c];
      y.values.push_back(scaled + largest - total);
      y.magnitudes.push_back(std::abs(scaled) + std::abs(largest) + magnitude);
    }
  }
  return y;
}

std::vector<Expected> weighted_totals(HostTensors in) {
  const auto &x = in[0].values, &gain = in[1].values;
  const size_t columns = gain.size();
  // The family leaves open what rows of nothing give.
  if (columns == 0 && in[0].shape[0] > 0) throw ShapeError("weighted_totals", "rows of no columns", "one or more", "");
  Expected y, top;
  y.shape = top.shape = {in[0].shape[0]};
  top.dtype = DType::f32;
  for (size_t first = 0; first < x.size(); first += columns) {
    double largest = kLeast, total = 0, magnitude = 0;
    for (size_t k = 0; k < columns; ++k) {
      const double scaled = x[first + k] * gain[k], term = scaled * (1 + static_cast<double>(k) / 1024);
      largest = std::max(largest, scaled);
      total += term;
      magnitude += std::abs(term);
    }
    y.values.push_back(largest + total);
    y.magnitudes.push_back(std::abs(largest) + magnitude);
    top.values.push_back(largest);
  }
  return {y, top};
}

std::vector<Expected> masked_rows(HostTensors in) {
  const auto& x = in[0].values;
  const auto columns = static_cast<size_t>(in[0].shape.back());
  if (columns == 0 && in[0].shape[0] > 0) throw ShapeError("masked_rows", "rows of no columns", "one or more", "");
  Expected y, totals, rest;
  y.shape = rest.shape = in[0].shape;
  totals.shape = {in[0].shape[0]};
  totals.dtype = DType::f32;
  for (size_t row = 0; row * columns < x.size(); ++row) {
    const double* of_row = &x[row * columns];
    double largest = kLeast, total = 0, magnitude = 0;
    for (size_t k = 0; k < columns; ++k) {
      if (k % 2 == 0) largest = std::max(largest, of_row[k]);
      if (k <= 37 * row) total += of_row[k], magnitude += std::abs(of_row[k]);
    }
    for (size_t c = 0; c < columns; ++c) {
      y.values.push_back(of_row[c] * largest - total);
      y.magnitudes.push_back(std::abs(of_row[c] * largest) + magnitude);
      rest.values.push_back(largest - of_row[c]);
      rest.magnitudes.push_back(std::abs(largest) + std::abs(of_row[c]));
    }
    totals.values.push_back(total);
    totals.magnitudes.push_back(magnitude);
  }
  return {y, totals, rest};
}

}  // namespace

void add_family_cases() {
  std::vector<Shape> shapes(std::begin(kManyRows), std::end(kManyRows));
  for (const int64_t columns : kColumns) shapes.push_back({columns > 8192 ? 2 : 5, columns});
  for (const Shape& shape : shapes) {
    const int64_t rows = shape[0], columns = shape[1];
    const std::string name = name_of_rows(shape);
    add_case({.kernel = "test_weighted_rows",
              .name = name,
              .inputs = {{.shape = {rows, columns}}, {.shape = {columns}}, {.shape = {rows, columns}}},
              .dtypes = {DType::f32, DType::f16},
              .call = [](Tensors in) { return std::vector{test_weighted_rows(in[0], in[1], in[2])}; },
              .reference = [](HostTensors in) { return std::vector{weighted_rows(in)}; },
              .tolerance = terms()});
    add_case({.kernel = "test_weighted_totals",
              .name = name,
              .inputs = {{.shape = {rows, columns}}, {.shape = {columns}}},
              .dtypes = {DType::f32},
              .call =
                  [](Tensors in) {
                    const auto [y, top] = test_weighted_totals(in[0], in[1]);
                    return std::vector{y, top};
                  },
              .reference = [](HostTensors in) { return weighted_totals(in); },
              .tolerance = terms()});
    add_case({.kernel = "test_masked_rows",
              .name = name,
              .inputs = {{.shape = {rows, columns}}},
              .dtypes = {DType::f32},
              .call =
                  [](Tensors in) {
                    const auto [y, total_of_row, rest] = test_masked_rows(in[0]);
                    return std::vector{y, total_of_row, rest};
                  },
              .reference = [](HostTensors in) { return masked_rows(in); },
              .tolerance = terms()});
  }
}

}  // namespace ashlar::conformance

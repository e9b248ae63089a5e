// Matrices of a batch in double, for references.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/conformance/random.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {

inline const std::vector<DType> kFloats{DType::f32, DType::f16, DType::bf16};

struct Matrix {
  Matrix() = default;
  Matrix(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), values(static_cast<size_t>(rows * columns), 0.0) {}
  double& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double operator()(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }

  int64_t rows = 0, columns = 0;
  std::vector<double> values;
};

inline Matrix transposed(const Matrix& x) {
  Matrix y(x.columns, x.rows);
  for (int64_t i = 0; i < x.rows; i++) {
    for (int64_t j = 0; j < x.columns; j++) y(j, i) = x(i, j);
  }
  return y;
}

inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix y(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; i++) {
    for (int64_t k = 0; k < a.columns; k++) {
      for (int64_t j = 0; j < b.columns; j++) y(i, j) += a(i, k) * b(k, j);
    }
  }
  return y;
}

/// The n-th matrix of the last two axes of x.
inline Matrix matrix_of(const HostTensor& x, int64_t n) {
  Matrix y(x.shape[x.shape.rank() - 2], x.shape.back());
  std::copy_n(x.values.begin() + n * y.rows * y.columns, y.rows * y.columns, y.values.begin());
  return y;
}

inline Shape batch_of(Shape shape) {
  for (int axis = 0; axis < 2; axis++) shape.erase(shape.rank() - 1);
  return shape;
}

/// The shape of matrices with at most so many rows and columns, for Case::vary: references take their cube.
inline Shape drawn_matrices(Random& random, int64_t rows, int64_t columns) {
  Shape shape;
  for (int64_t axes = random.below(3); axes > 0; axes--) shape.push_back(random.pick<int64_t>({1, 2, 3}));
  for (const int64_t most : {rows, columns})
    shape.push_back(random.chance(0.5) ? random.below(10) : random.between(1, most));
  return shape;
}

/// Matrices one after the other, as a batch of `shape`. An error is measured against the largest element of its matrix.
inline Expected stacked(const Shape& batch, const std::vector<Matrix>& matrices, Shape last) {
  Expected y{batch, {}, {}};
  if (!matrices.empty()) last = {matrices[0].rows, matrices[0].columns};
  for (const int64_t size : {last[0], last[1]}) y.shape.push_back(size);
  for (const Matrix& matrix : matrices) {
    double largest = 0;
    for (const double value : matrix.values) largest = std::max(largest, std::abs(value));
    y.values.insert(y.values.end(), matrix.values.begin(), matrix.values.end());
    y.magnitudes.insert(y.magnitudes.end(), matrix.values.size(), largest);
  }
  return y;
}

/// How much less than f32 a case's tolerance holds of factors that were rounded to `dtype`, or made of what was.
inline double rounding_of(DType dtype) {
  if (dtype == DType::f32) return 1;
  return dtype == DType::f16 ? 400 : 3200;  // eight roundings, in 1e-5
}

/// The same results in f32, each error measured against `factor` times as much.
inline std::vector<Expected> loosened(std::vector<Expected> results, double factor) {
  for (Expected& y : results) {
    y.dtype = DType::f32;
    for (double& magnitude : y.magnitudes) magnitude *= factor;
  }
  return results;
}

/// f of each matrix of a batch: square, with as many rows as x has.
template <class Function>
Expected each_matrix(const HostTensor& x, const Function& f) {
  const Shape batch = batch_of(x.shape);
  std::vector<Matrix> results;
  for (int64_t n = 0; n < batch.numel(); n++) results.push_back(f(matrix_of(x, n)));
  const int64_t rows = x.shape[x.shape.rank() - 2];
  return stacked(batch, results, {rows, rows});
}

/// f of each pair of matrices of two batches that broadcast; a result has the second's shape.
template <class Function>
Expected each_pair(const HostTensor& a, const HostTensor& b, const Function& f) {
  const Shape left = batch_of(a.shape), right = batch_of(b.shape), batch = broadcast("reference", left, right);
  std::vector<int64_t> of_a, of_b;
  for_each_index(batch, broadcast_strides(left, batch), [&](const Shape&, int64_t at) { of_a.push_back(at); });
  for_each_index(batch, broadcast_strides(right, batch), [&](const Shape&, int64_t at) { of_b.push_back(at); });
  std::vector<Matrix> results;
  for (size_t n = 0; n < of_a.size(); n++) results.push_back(f(matrix_of(a, of_a[n]), matrix_of(b, of_b[n])));
  return stacked(batch, results, {b.shape[b.shape.rank() - 2], b.shape.back()});
}

}  // namespace ashlar::conformance

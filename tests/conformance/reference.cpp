#include "tests/conformance/reference.h"

#include <Eigen/Core>
#include <algorithm>
#include <numbers>

namespace ashlar::conformance {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Matrix `index` of a batch, [rows, columns] after the transposition.
Matrix matrix_at(const HostTensor& x, int64_t index, bool transpose) {
  const int64_t rows = x.shape[x.shape.rank() - 2];
  const int64_t columns = x.shape.back();
  const Eigen::Map<const Matrix> stored(x.values.data() + index * rows * columns, rows, columns);
  return transpose ? Matrix(stored.transpose()) : Matrix(stored);
}

// Rank 1 operands become [1, k] on the left and [k, 1] on the right.
HostTensor as_matrix(HostTensor x, bool left) {
  if (x.shape.rank() == 1) x.shape.insert(left ? 0 : 1, 1);
  return x;
}

Shape batch_of(const Shape& shape) {
  Shape batch = shape;
  batch.erase(batch.rank() - 1);
  batch.erase(batch.rank() - 1);
  return batch;
}

// Σ over zero terms is 0 even where Eigen's product of empty matrices is left undefined.
Matrix product(const Matrix& a, const Matrix& b) {
  if (a.cols() == 0) return Matrix::Zero(a.rows(), b.cols());
  // Straight loops while they're quick: Eigen's blocked product may skip a NaN · 0.
  if (a.rows() * a.cols() * b.cols() > 4'000'000) return a * b;
  Matrix c = Matrix::Zero(a.rows(), b.cols());
  for (int64_t m = 0; m < a.rows(); ++m) {
    for (int64_t k = 0; k < a.cols(); ++k) {
      for (int64_t n = 0; n < b.cols(); ++n) c(m, n) += a(m, k) * b(k, n);
    }
  }
  return c;
}

}  // namespace

Shape broadcast_strides(const Shape& shape, const Shape& target) {
  const Shape dense = dense_strides(shape);
  Shape strides = Shape::filled(target.rank(), 0);
  const int missing = target.rank() - shape.rank();
  for (int i = 0; i < shape.rank(); ++i) strides[missing + i] = shape[i] == 1 ? 0 : dense[i];
  return strides;
}

HostTensor with_axis_moved(const HostTensor& x, int64_t from, int64_t to) {
  const int source = normalize_axis("reference", from, x.shape.rank());
  const int target = normalize_axis("reference", to, x.shape.rank());
  HostTensor y{x.shape, {}, x.dtype};
  Shape strides = dense_strides(x.shape);
  const auto move = [&](Shape& values) {
    const int64_t moved = values[source];
    values.erase(source);
    values.insert(target, moved);
  };
  move(y.shape);
  move(strides);
  y.values.reserve(x.values.size());
  for_each_index(y.shape, strides, [&](const Shape&, int64_t at) { y.values.push_back(x.values[at]); });
  return y;
}

Expected reduced(const HostTensor& x, const Shape& axes, bool keepdim,
                 const std::function<Reduced(const std::vector<double>&)>& f) {
  const Shape strides = dense_strides(x.shape);
  Shape kept, kept_strides, gone, gone_strides, result;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const bool is_gone = axes.empty() || std::ranges::any_of(axes, [&](int64_t axis) {
                           return (axis < 0 ? axis + x.shape.rank() : axis) == i;
                         });
    (is_gone ? gone : kept).push_back(x.shape[i]);
    (is_gone ? gone_strides : kept_strides).push_back(strides[i]);
    if (!is_gone || keepdim) result.push_back(is_gone ? 1 : x.shape[i]);
  }
  Expected y{result, {}, {}};
  std::vector<double> group;
  for_each_index(kept, kept_strides, [&](const Shape&, int64_t base) {
    group.clear();
    for_each_index(gone, gone_strides, [&](const Shape&, int64_t at) { group.push_back(x.values[base + at]); });
    const Reduced one = f(group);
    y.values.push_back(one.value);
    y.magnitudes.push_back(one.magnitude);
  });
  return y;
}

Expected row_wise(const HostTensor& x, int64_t axis,
                  const std::function<void(const std::vector<double>&, double*, double*)>& f) {
  if (x.shape.rank() == 0) {
    Expected y = row_wise({{1}, x.values, x.dtype}, axis, f);
    y.shape = {};
    return y;
  }
  Expected y{x.shape, std::vector<double>(x.values.size()), std::vector<double>(x.values.size())};
  Shape rest = x.shape;
  Shape rest_strides = dense_strides(x.shape);
  const int at_axis = normalize_axis("reference", axis, x.shape.rank());
  const int64_t length = x.shape[at_axis];
  const int64_t step = rest_strides[at_axis];
  rest.erase(at_axis);
  rest_strides.erase(at_axis);
  std::vector<double> row(static_cast<size_t>(length)), out(row.size()), magnitude(row.size());
  for_each_index(rest, rest_strides, [&](const Shape&, int64_t base) {
    for (int64_t i = 0; i < length; ++i) row[i] = x.values[base + i * step];
    f(row, out.data(), magnitude.data());
    for (int64_t i = 0; i < length; ++i) {
      y.values[base + i * step] = out[i];
      y.magnitudes[base + i * step] = magnitude[i];
    }
  });
  return y;
}

Expected contracted(const HostTensor& left, const HostTensor& right, bool transpose_a, bool transpose_b,
                    const HostTensor* bias, Activation activation) {
  transpose_a = transpose_a && left.shape.rank() > 1;  // of a vector changes nothing
  transpose_b = transpose_b && right.shape.rank() > 1;
  const HostTensor a = as_matrix(left, true);
  const HostTensor b = as_matrix(right, false);
  const Shape batch = broadcast("reference", batch_of(a.shape), batch_of(b.shape));
  const int64_t m = a.shape[a.shape.rank() - (transpose_a ? 1 : 2)];
  const int64_t n = b.shape[b.shape.rank() - (transpose_b ? 2 : 1)];
  Expected c{batch, {}, {}};
  if (left.shape.rank() > 1) c.shape.push_back(m);
  if (right.shape.rank() > 1) c.shape.push_back(n);
  std::vector<int64_t> b_index;
  for_each_index(batch, broadcast_strides(batch_of(b.shape), batch),
                 [&](const Shape&, int64_t at) { b_index.push_back(at); });
  size_t item = 0;
  for_each_index(batch, broadcast_strides(batch_of(a.shape), batch), [&](const Shape&, int64_t a_index) {
    const Matrix x = matrix_at(a, a_index, transpose_a);
    const Matrix y = matrix_at(b, b_index[item++], transpose_b);
    const Matrix sums = product(x, y);
    const Matrix sizes = product(x.cwiseAbs(), y.cwiseAbs());
    for (int64_t i = 0; i < m * n; ++i) {
      const double shift = bias ? bias->values[i % n] : 0;
      const double sum = sums.data()[i] + shift;
      const double size = sizes.data()[i] + std::abs(shift);
      if (activation == Activation::gelu) {
        // An error of the sum counts by the slope, Φ(s) + s φ(s), which is small in the tail; and Φ has one of its own.
        const double phi = 0.5 * std::erfc(-sum * std::numbers::sqrt2 / 2);
        const double density = std::exp(-0.5 * sum * sum) / std::sqrt(2 * std::numbers::pi);
        c.values.push_back(sum * phi);
        c.magnitudes.push_back((phi + std::abs(sum) * density) * size + 0.1 * std::abs(sum));
        continue;
      }
      c.values.push_back(activation == Activation::relu ? max_of(sum, 0) : sum);
      c.magnitudes.push_back(size);
    }
  });
  return c;
}

Expected contracted_sample(const HostTensor& a, const HostTensor& b, int64_t count) {
  const int64_t m = a.shape[0];
  const int64_t k = a.shape[1];
  const int64_t n = b.shape[1];
  Expected c{{m, n}, {}, {}};
  for (int64_t sample = 0; sample < count; ++sample) {
    const auto position = static_cast<int64_t>(mix(static_cast<uint64_t>(sample)) % static_cast<uint64_t>(m * n));
    double sum = 0;
    double size = 0;
    for (int64_t i = 0; i < k; ++i) {
      const double term = a.values[position / n * k + i] * b.values[i * n + position % n];
      sum += term;
      size += std::abs(term);
    }
    c.values.push_back(sum);
    c.magnitudes.push_back(size);
    c.positions.push_back(position);
  }
  return c;
}

}  // namespace ashlar::conformance

// Operators on small arrays of doubles, with plain loops: what gradients are checked against.
#pragma once

#include <functional>
#include <vector>

#include "runtime/tensor/shape.h"

namespace ashlar::reference {

/// Dense and row-major.
struct Array {
  Shape shape;
  std::vector<double> values;

  explicit Array(const Shape& s, double value = 0) : shape(s), values(static_cast<size_t>(s.numel()), value) {}
  double& at(const Shape& index) { return values[flat(index)]; }
  double at(const Shape& index) const { return values[flat(index)]; }

 private:
  size_t flat(const Shape& index) const;
};

/// Calls f with every index of `shape`, row-major.
void for_each_index(const Shape& shape, const std::function<void(const Shape& index)>& f);

Array map(const Array& x, double (*f)(double));
/// With NumPy broadcasting.
Array combine(const Array& a, const Array& b, double (*f)(double, double));
/// Folds over `axes` (empty: all).
Array reduce(const Array& x, const Shape& axes, bool keepdim, double start, double (*f)(double, double));
Array broadcast_to(const Array& x, const Shape& shape);
Array reshape(const Array& x, const Shape& shape);
Array permute(const Array& x, const Shape& axes);
Array slice(const Array& x, int axis, int64_t start, int64_t stop, int64_t step);
/// NumPy's matmul, with the last two axes exchanged first where asked; rank-1 operands are never transposed.
Array matmul(const Array& a, const Array& b, bool transpose_a, bool transpose_b);

}  // namespace ashlar::reference

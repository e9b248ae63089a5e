#include "tests/autograd/reference.h"

#include <algorithm>
#include <utility>

namespace ashlar::reference {
namespace {

/// The index of the element of an array of `shape` that broadcasts to `index`.
Shape broadcast_index(const Shape& index, const Shape& shape) {
  Shape result;
  const int added = index.rank() - shape.rank();
  for (int i = 0; i < shape.rank(); i++) result.push_back(shape[i] == 1 ? 0 : index[added + i]);
  return result;
}

}  // namespace

size_t Array::flat(const Shape& index) const {
  int64_t position = 0;
  for (int i = 0; i < shape.rank(); i++) position = position * shape[i] + index[i];
  return static_cast<size_t>(position);
}

void for_each_index(const Shape& shape, const std::function<void(const Shape& index)>& f) {
  if (shape.numel() == 0) return;
  Shape index = Shape::filled(shape.rank(), 0);
  for (;;) {
    f(index);
    int axis = shape.rank() - 1;
    while (axis >= 0 && ++index[axis] == shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

Array map(const Array& x, double (*f)(double)) {
  Array y = x;
  std::ranges::transform(y.values, y.values.begin(), f);
  return y;
}

Array combine(const Array& a, const Array& b, double (*f)(double, double)) {
  Array y(broadcast("reference", a.shape, b.shape));
  for_each_index(y.shape, [&](const Shape& i) {
    y.at(i) = f(a.at(broadcast_index(i, a.shape)), b.at(broadcast_index(i, b.shape)));
  });
  return y;
}

Array reduce(const Array& x, const Shape& axes, bool keepdim, double start, double (*f)(double, double)) {
  Shape kept = x.shape, result_shape;
  for (int i = 0; i < x.shape.rank(); i++) {
    const bool reduced = axes.empty() || std::ranges::any_of(axes, [&](int64_t axis) {
                           return normalize_axis("reference", axis, x.shape.rank()) == i;
                         });
    if (reduced) kept[i] = 1;
    if (!reduced || keepdim) result_shape.push_back(kept[i]);
  }
  Array y(kept, start);
  for_each_index(x.shape, [&](const Shape& i) {
    double& sum = y.at(broadcast_index(i, kept));
    sum = f(sum, x.at(i));
  });
  y.shape = result_shape;
  return y;
}

Array broadcast_to(const Array& x, const Shape& shape) {
  Array y(shape);
  for_each_index(shape, [&](const Shape& i) { y.at(i) = x.at(broadcast_index(i, x.shape)); });
  return y;
}

Array reshape(const Array& x, const Shape& shape) {
  Array y = x;
  y.shape = shape;
  return y;
}

Array permute(const Array& x, const Shape& axes) {
  Shape shape;
  for (int64_t axis : axes) shape.push_back(x.shape[static_cast<int>(axis)]);
  Array y(shape);
  for_each_index(shape, [&](const Shape& i) {
    Shape from = x.shape;
    for (int d = 0; d < axes.rank(); d++) from[static_cast<int>(axes[d])] = i[d];
    y.at(i) = x.at(from);
  });
  return y;
}

Array slice(const Array& x, int axis, int64_t start, int64_t stop, int64_t step) {
  Shape shape = x.shape;
  shape[axis] = (stop - start + step - 1) / step;
  Array y(shape);
  for_each_index(shape, [&](const Shape& i) {
    Shape from = i;
    from[axis] = start + i[axis] * step;
    y.at(i) = x.at(from);
  });
  return y;
}

Array matmul(const Array& a, const Array& b, bool transpose_a, bool transpose_b) {
  const auto as_matrices = [](const Array& x, bool transpose, bool is_left) {
    if (x.shape.rank() == 1) return reshape(x, is_left ? Shape{1, x.shape[0]} : Shape{x.shape[0], 1});
    if (!transpose) return x;
    Shape axes;
    for (int i = 0; i < x.shape.rank(); i++) axes.push_back(i);
    std::swap(axes[axes.rank() - 1], axes[axes.rank() - 2]);
    return permute(x, axes);
  };
  const Array left = as_matrices(a, transpose_a, true), right = as_matrices(b, transpose_b, false);
  const int left_rank = left.shape.rank(), right_rank = right.shape.rank();
  const int64_t m = left.shape[left_rank - 2], k = left.shape[left_rank - 1], n = right.shape[right_rank - 1];
  Shape left_batch, right_batch;
  for (int i = 0; i + 2 < left_rank; i++) left_batch.push_back(left.shape[i]);
  for (int i = 0; i + 2 < right_rank; i++) right_batch.push_back(right.shape[i]);
  Shape shape = broadcast("reference", left_batch, right_batch);
  shape.push_back(m);
  shape.push_back(n);
  Array y(shape);
  for_each_index(shape, [&](const Shape& i) {
    Shape batch = i;
    batch.erase(i.rank() - 1);
    batch.erase(i.rank() - 2);
    Shape from_left = broadcast_index(batch, left_batch), from_right = broadcast_index(batch, right_batch);
    from_left.push_back(i[i.rank() - 2]);
    from_left.push_back(0);
    from_right.push_back(0);
    from_right.push_back(i[i.rank() - 1]);
    double sum = 0;
    for (int64_t j = 0; j < k; j++) {
      from_left[from_left.rank() - 1] = from_right[from_right.rank() - 2] = j;
      sum += left.at(from_left) * right.at(from_right);
    }
    y.at(i) = sum;
  });
  if (b.shape.rank() == 1) y.shape.erase(y.shape.rank() - 1);
  if (a.shape.rank() == 1) y.shape.erase(y.shape.rank() - (b.shape.rank() == 1 ? 1 : 2));
  return y;
}

}  // namespace ashlar::reference

// A tensor as a list of positions: the plain restatement of every view that the tests compare Tensor with.
#pragma once

#include <functional>
#include <random>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::testing {

/// position[i] says which element of the dense base tensor stands at row-major place i of `shape`.
struct Model {
  Shape shape;
  std::vector<int64_t> position;

  static Model dense(const Shape& shape);
  /// The model of this shape whose element at an index is this one's element at `from(index)`.
  Model gather(const Shape& shape, const std::function<Shape(const Shape& index)>& from) const;
  int64_t at(const Shape& index) const;
};

/// Calls `visit` for every index of `shape`, row-major.
void for_each_index(const Shape& shape, const std::function<void(const Shape& index)>& visit);

/// A view and its model, reached from a dense tensor of `shape` by the same random steps: permute, slice with steps,
/// flip, select, squeeze, unsqueeze, broadcast.
struct RandomView {
  Shape base;
  Model model;
  std::function<Tensor(const Tensor& base)> apply;
};
struct ViewOptions {
  int steps = 4;
  bool broadcasts = true;
  bool flips = true;
};
RandomView random_view(std::mt19937& random, ViewOptions options = {});

/// A tensor of `shape` filled with `values` (row-major), but with random strides and offset: part of a bigger,
/// permuted, perhaps reversed tensor.
template <Storable T>
Tensor scattered(std::mt19937& random, const std::vector<T>& values, const Shape& shape, Device device);

/// Any view of `shape` in fresh storage whose elements don't share memory.
Tensor scattered_like(std::mt19937& random, const Shape& shape, DType dtype, Device device, bool flips = true);

/// Sizes of 1 to `most` in `rank` dimensions.
Shape random_shape(std::mt19937& random, int rank, int64_t most);

/// An integer of [low, high].
int64_t random_integer(std::mt19937& random, int64_t low, int64_t high);

template <Storable T>
Tensor scattered(std::mt19937& random, const std::vector<T>& values, const Shape& shape, Device device) {
  const Tensor view = scattered_like(random, shape, dtype_of<T>, device);
  view.copy_(Tensor::from(values, shape, device));
  return view;
}

}  // namespace ashlar::testing

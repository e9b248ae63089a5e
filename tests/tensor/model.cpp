#include "tests/tensor/model.h"

#include <algorithm>
#include <numeric>

namespace ashlar::testing {

int64_t random_integer(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

Shape random_shape(std::mt19937& random, int rank, int64_t most) {
  Shape shape;
  for (int i = 0; i < rank; i++) shape.push_back(random_integer(random, 1, most));
  return shape;
}

void for_each_index(const Shape& shape, const std::function<void(const Shape& index)>& visit) {
  const int64_t count = shape.numel();
  Shape index = Shape::filled(shape.rank(), 0);
  for (int64_t n = 0; n < count; n++) {
    visit(index);
    for (int i = shape.rank() - 1; i >= 0 && ++index[i] == shape[i]; i--) index[i] = 0;
  }
}

Model Model::dense(const Shape& shape) {
  Model model{shape, std::vector<int64_t>(static_cast<size_t>(shape.numel()))};
  std::iota(model.position.begin(), model.position.end(), 0);
  return model;
}

int64_t Model::at(const Shape& index) const {
  int64_t place = 0;
  for (int i = 0; i < shape.rank(); i++) place = place * shape[i] + index[i];
  return position[static_cast<size_t>(place)];
}

Model Model::gather(const Shape& to, const std::function<Shape(const Shape& index)>& from) const {
  Model result{to, {}};
  for_each_index(to, [&](const Shape& index) { result.position.push_back(at(from(index))); });
  return result;
}

namespace {

using Apply = std::function<Tensor(const Tensor&)>;

void add_step(RandomView& view, const Shape& shape, const std::function<Shape(const Shape&)>& from, const Apply& step) {
  view.model = view.model.gather(shape, from);
  view.apply = [before = view.apply, step](const Tensor& x) { return step(before(x)); };
}

void permute(RandomView& view, std::mt19937& random) {
  const int rank = view.model.shape.rank();
  std::vector<int> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Shape axes, shape;
  for (int axis : order) {
    axes.push_back(axis);
    shape.push_back(view.model.shape[axis]);
  }
  const auto from = [axes](const Shape& index) {
    Shape source = index;
    for (int i = 0; i < axes.rank(); i++) source[static_cast<int>(axes[i])] = index[i];
    return source;
  };
  add_step(view, shape, from, [axes](const Tensor& x) { return x.permute(axes); });
}

void slice(RandomView& view, std::mt19937& random, int axis) {
  const int64_t size = view.model.shape[axis];
  const int64_t start = random_integer(random, 0, size - 1), stop = random_integer(random, start + 1, size);
  const int64_t step = random_integer(random, 1, 3);
  Shape shape = view.model.shape;
  shape[axis] = 0;
  for (int64_t i = start; i < stop; i += step) shape[axis]++;
  const auto from = [=](Shape index) {
    index[axis] = start + index[axis] * step;
    return index;
  };
  add_step(view, shape, from, [=](const Tensor& x) { return x.slice(axis, start, stop, step); });
}

void flip(RandomView& view, int axis) {
  const int64_t size = view.model.shape[axis];
  const auto from = [=](Shape index) {
    index[axis] = size - 1 - index[axis];
    return index;
  };
  add_step(view, view.model.shape, from, [=](const Tensor& x) { return x.flip(axis); });
}

void select(RandomView& view, std::mt19937& random, int axis) {
  const int64_t chosen = random_integer(random, 0, view.model.shape[axis] - 1);
  Shape shape = view.model.shape;
  shape.erase(axis);
  const auto from = [=](Shape index) {
    index.insert(axis, chosen);
    return index;
  };
  add_step(view, shape, from, [=](const Tensor& x) { return x.select(axis, chosen); });
}

void unsqueeze(RandomView& view, int axis) {
  Shape shape = view.model.shape;
  shape.insert(axis, 1);
  const auto from = [=](Shape index) {
    index.erase(axis);
    return index;
  };
  add_step(view, shape, from, [=](const Tensor& x) { return x.unsqueeze(axis); });
}

void broadcast(RandomView& view, std::mt19937& random) {
  const Shape before = view.model.shape;
  Shape shape = before;
  const bool has_lead = before.rank() < 6 && random_integer(random, 0, 1) == 1;
  if (has_lead) shape.insert(0, random_integer(random, 1, 3));
  const int lead = shape.rank() - before.rank();
  for (int i = 0; i < before.rank(); i++) {
    if (before[i] == 1) shape[lead + i] = random_integer(random, 1, 3);
  }
  const auto from = [=](const Shape& index) {
    Shape source = before;
    for (int i = 0; i < before.rank(); i++) source[i] = before[i] == 1 ? 0 : index[lead + i];
    return source;
  };
  add_step(view, shape, from, [shape](const Tensor& x) { return x.broadcast_to(shape); });
}

}  // namespace

RandomView random_view(std::mt19937& random, ViewOptions options) {
  RandomView view;
  view.base = random_shape(random, static_cast<int>(random_integer(random, 1, 6)), 5);
  view.model = Model::dense(view.base);
  view.apply = [](const Tensor& x) { return x; };
  for (int i = 0; i < options.steps; i++) {
    const int rank = view.model.shape.rank();
    if (rank == 0) break;
    const int axis = static_cast<int>(random_integer(random, 0, rank - 1));
    switch (random_integer(random, 0, 5)) {
      case 0:
        permute(view, random);
        break;
      case 1:
        slice(view, random, axis);
        break;
      case 2:
        if (options.flips) flip(view, axis);
        break;
      case 3:
        select(view, random, axis);
        break;
      case 4:
        if (rank < 6) unsqueeze(view, axis);
        break;
      case 5:
        if (options.broadcasts && view.model.position.size() < 2000) broadcast(view, random);
        break;
    }
  }
  return view;
}

Tensor scattered_like(std::mt19937& random, const Shape& shape, DType dtype, Device device, bool flips) {
  const int rank = shape.rank();
  std::vector<int> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  // The base holds the dimensions in another order, each with a margin and a step of its own.
  Shape sizes, back = Shape::filled(rank, 0);
  std::vector<int64_t> starts, steps;
  for (int i = 0; i < rank; i++) {
    const int64_t size = shape[order[static_cast<size_t>(i)]];
    steps.push_back(random_integer(random, 0, 3) == 0 ? 2 : 1);
    starts.push_back(random_integer(random, 0, 2));
    sizes.push_back(starts.back() + size * steps.back() + random_integer(random, 0, 1));
    back[order[static_cast<size_t>(i)]] = i;
  }
  Tensor view = Tensor::zeros(sizes, dtype, device);
  for (int i = 0; i < rank; i++) {
    const size_t d = static_cast<size_t>(i);
    const int64_t size = shape[order[d]];
    view = view.slice(i, starts[d], starts[d] + size * steps[d], steps[d]);
    if (flips && random_integer(random, 0, 3) == 0) view = view.flip(i);
  }
  return view.permute(back);
}

}  // namespace ashlar::testing

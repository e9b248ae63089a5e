// repeat, tile, flip, roll, tril, triu, masked_fill: views and copies of them (generators/movement.cpp).
#include "ashlar/ops/movement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "ashlar/ops/scatter.h"
#include "runtime/forms/broadcast.h"
#include "runtime/forms/carrier.h"
#include "runtime/forms/check.h"
#include "runtime/graph/graph.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

void check_movable(const KernelInfo& kernel, const Tensor& x) { forms::key_of(kernel, {.inputs = std::span(&x, 1)}); }

/// `count` copies of x one after the other along `axis`.
Tensor repeated_along(const Tensor& x, int axis, int64_t count) {
  Shape apart = x.shape(), whole = x.shape();
  apart.insert(axis, count);
  whole[axis] *= count;
  return x.unsqueeze(axis).broadcast_to(apart).reshape(whole);
}

/// The same along each axis, of as many repeats as axes: one copy, as long as what stands apart has kMaxRank axes.
Tensor repeated(const Tensor& x, const Shape& repeats) {
  const auto several = std::count_if(repeats.begin(), repeats.end(), [](int64_t count) { return count != 1; });
  if (several == 0) return x.clone();
  if (several == 1 || x.rank() + several > kMaxRank) {
    Tensor y = x;
    for (int i = 0; i < repeats.rank(); i++) {
      if (repeats[i] != 1) y = repeated_along(y, i, repeats[i]);
    }
    return y.contiguous();
  }
  Shape single, apart, whole;
  for (int i = 0; i < x.rank(); i++) {
    if (repeats[i] != 1) single.push_back(1), apart.push_back(repeats[i]);
    single.push_back(x.shape()[i]);
    apart.push_back(x.shape()[i]);
    whole.push_back(repeats[i] * x.shape()[i]);
  }
  return x.reshape(single).broadcast_to(apart).reshape(whole).contiguous();
}

Shape in_front(const Shape& shape, int ones) {
  Shape longer = shape;
  for (int i = 0; i < ones; i++) longer.insert(0, 1);
  return longer;
}

void check_repeats(const char* operation, const Shape& repeats) {
  if (std::any_of(repeats.begin(), repeats.end(), [](int64_t count) { return count < 0; })) {
    throw ValueError(operation, "repeats " + repeats.str(), "repeats of 0 or more", "Give how often each axis comes");
  }
}

/// Copies x to y, rolled by `shifts` (in [0, size) of each axis) along axes `from` on.
void roll_into(const Tensor& x, const Tensor& y, const Shape& shifts, int from) {
  int axis = from;
  while (axis < x.rank() && shifts[axis] == 0) axis++;
  if (axis == x.rank()) return y.copy_(x);
  const int64_t shift = shifts[axis], rest = x.shape()[axis] - shift;
  roll_into(x.slice(axis, 0, rest), y.slice(axis, shift), shifts, axis + 1);
  roll_into(x.slice(axis, rest), y.slice(axis, 0, shift), shifts, axis + 1);
}

/// x where low <= column - row <= high, else 0
Tensor band(const KernelInfo& operation, const Tensor& x, int64_t low, int64_t high) {
  check_movable(operation, x);
  if (x.rank() < 2) {
    throw forms::shape_error(operation, std::span(&x, 1), "a matrix, or a batch of them", "Give it axes by reshape()");
  }
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (x.numel() == 0) return y;
  const int64_t rows = x.size(-2), columns = x.size(-1);
  const Shape matrices{1, x.numel() / (rows * columns), rows, columns};
  const auto held = [&](int64_t bound) { return std::clamp(bound, -rows, columns); };  // sums of it fit into 32 bits
  const Tensor from = forms::as_declared(kernels::band, 0, forms::as_carrier(x), matrices);
  const Tensor to = forms::as_carrier(y).reshape(matrices);
  launch(kernels::band, {.elements = {from.dtype()}}, std::span(&from, 1), std::array<Scalar, 2>{held(low), held(high)},
         std::span(&to, 1));
  return y;
}

constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

}  // namespace

Tensor repeat(const Tensor& x, const Shape& repeats) try {
  check_movable(kernels::repeat, x);
  check_repeats("repeat", repeats);
  const int added = repeats.rank() - x.rank();
  if (added < 0) {
    throw forms::shape_error(kernels::repeat, std::span(&x, 1), "a repeat for each axis, came " + repeats.str(),
                             "Give 1 for axes that stay, or call tile()");
  }
  return repeated(x.reshape(in_front(x.shape(), added)), repeats);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("repeat");
}

Tensor tile(const Tensor& x, const Shape& repeats) try {
  check_movable(kernels::tile, x);
  check_repeats("tile", repeats);
  return repeat(x, in_front(repeats, std::max(x.rank() - repeats.rank(), 0)));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("tile");
}

Tensor flip(const Tensor& x, const Shape& axes) try {
  check_movable(kernels::flip, x);
  Tensor y = x;
  unsigned seen = 0;
  for (const int64_t wanted : axes) {
    const int axis = normalize_axis("flip", wanted, x.rank());
    if (seen >> axis & 1)
      throw ValueError("flip", "axes " + axes.str(), "each axis once", "Leave out what comes twice");
    seen |= 1u << axis;
    y = y.flip(axis);
  }
  return y.clone();
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("flip");
}

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes) try {
  check_movable(kernels::roll, x);
  if (shifts.rank() == 0 || shifts.rank() != std::max(axes.rank(), 1)) {
    throw ValueError("roll", "shifts " + shifts.str() + " along axes " + axes.str(),
                     "a shift for each axis, or one without axes", "Give as many shifts as axes");
  }
  if (axes.rank() == 0) return roll(x.reshape({x.numel()}), shifts, {0}).reshape(x.shape());
  Shape total = Shape::filled(x.rank(), 0);
  for (int i = 0; i < axes.rank(); i++) {
    const int axis = normalize_axis("roll", axes[i], x.rank());
    const int64_t size = std::max<int64_t>(x.shape()[axis], 1), shift = shifts[i] % size;
    total[axis] = (total[axis] + shift + size) % size;
  }
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  if (x.numel() > 0) roll_into(x, y, total, 0);
  return y;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("roll");
}

Tensor tril(const Tensor& x, int64_t diagonal) { return band(kernels::tril, x, -kFar, diagonal); }
Tensor triu(const Tensor& x, int64_t diagonal) { return band(kernels::triu, x, diagonal, kFar); }

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) try {
  const std::array given{x, mask};
  forms::key_of(kernels::masked_fill, {.inputs = given});
  const Tensor element = Tensor::full({}, value, x.dtype());  // rounded, or refused, as the dtype does
  int64_t bits = 0;
  std::memcpy(&bits, element.data(), static_cast<size_t>(size_of(x.dtype())));
  const std::array<Tensor, 2> inputs{forms::as_carrier(x), mask};
  const std::array<Scalar, 1> scalars{bits};
  const Tensor y = forms::Broadcast::call(kernels::masked_fill_elements, {.inputs = inputs, .scalars = scalars})[0];
  return Tensor(y.storage(), y.shape(), y.strides(), y.offset(), x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("masked_fill");
}

Tensor one_hot(const Tensor& index, int64_t num_classes) try {
  check_movable(kernels::one_hot, index);
  if (num_classes == -1) {
    if (index.device().kind != DeviceKind::cpu || is_capturing(index.device()) || index.numel() == 0) {
      throw ValueError("one_hot", "num_classes = -1 for index: " + index.str(),
                       "the number of classes, where indices can't be read without a wait, or there are none",
                       "Give num_classes");
    }
    const std::vector<int64_t> all = index.to_vector<int64_t>();
    num_classes = *std::max_element(all.begin(), all.end()) + 1;
  }
  if (num_classes < 1) {
    throw ValueError("one_hot", "num_classes = " + std::to_string(num_classes), "1 or more classes, or -1",
                     "Give the number of classes");
  }
  Shape shape = index.shape();
  shape.push_back(num_classes);
  const Tensor one = Tensor::ones({1}, DType::i64, index.device());
  return scatter(Tensor::zeros(shape, DType::i64, index.device()), index.unsqueeze(-1),
                 one.broadcast_to(index.unsqueeze(-1).shape()), -1);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("one_hot");
}

}  // namespace ashlar

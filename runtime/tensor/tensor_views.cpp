// Views: the same storage under another shape, other strides, another offset.
#include <algorithm>
#include <optional>

#include "runtime/forms/collapse.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

namespace {

/// `shape` with its one -1 replaced by what makes `numel` elements.
Shape resolved(const Shape& shape, const Tensor& x) {
  const auto refuse = [&](const char* needed) {
    return ShapeError("Tensor::reshape", x.str() + " to " + shape.str(), needed, "Choose sizes with the same product");
  };
  const int64_t numel = x.numel();
  Shape result = shape;
  int unknown = -1;
  for (int i = 0; i < shape.rank(); i++) {
    if (shape[i] == -1) {
      if (unknown >= 0) throw refuse("at most one size of -1");
      unknown = i;
      result[i] = 1;
    } else if (shape[i] < 0) {
      throw refuse("sizes of 0 or more, or one -1");
    }
  }
  if (unknown >= 0) {
    const int64_t rest = result.numel();
    if (rest == 0 || numel % rest != 0) throw refuse("known sizes whose product divides the number of elements");
    result[unknown] = numel / rest;
  }
  if (result.numel() != numel) throw refuse("the same number of elements");
  return result;
}

/// Strides that show the same elements in the same order as `shape`, or nothing where only a copy can.
/// Both shapes hold the same number of elements, at least one.
std::optional<Shape> reshaped_strides(const Tensor& x, const Shape& shape) {
  // Every run of mergeable dimensions is cut anew from its inner end.
  const forms::Loops runs = forms::collapse(x.shape(), {x.strides()});
  Shape strides = dense_strides(shape);
  int run = runs.sizes.rank() - 1;
  int64_t left = run >= 0 ? runs.sizes[run] : 1;
  int64_t stride = run >= 0 ? runs.strides[0][run] : 1;
  for (int i = shape.rank() - 1; i >= 0; i--) {
    if (shape[i] == 1) continue;
    if (left == 1) {
      run--;
      left = runs.sizes[run];
      stride = runs.strides[0][run];
    }
    if (left % shape[i] != 0) return std::nullopt;
    strides[i] = stride;
    stride *= shape[i];
    left /= shape[i];
  }
  return strides;
}

}  // namespace

Tensor Tensor::reshape(const Shape& shape) const try {
  check_defined("Tensor::reshape");
  const Shape sizes = resolved(shape, *this);
  if (sizes == shape_) return *this;
  if (numel() == 0) return view(sizes, dense_strides(sizes), offset_);
  if (const std::optional<Shape> strides = reshaped_strides(*this, sizes)) return view(sizes, *strides, offset_);
  const Tensor dense = contiguous();
  return dense.view(sizes, dense_strides(sizes), dense.offset());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Tensor::reshape");
}

Tensor Tensor::permute(const Shape& axes) const {
  check_defined("Tensor::permute");
  if (axes.rank() != rank()) {
    throw ShapeError("Tensor::permute", "axes " + axes.str() + " for " + str(), "each axis once",
                     "Give a permutation of 0 to rank - 1");
  }
  Shape shape = shape_, strides = strides_;
  unsigned seen = 0;
  for (int i = 0; i < rank(); i++) {
    const int axis = normalize_axis("Tensor::permute", axes[i], rank());
    if (seen >> axis & 1) {
      throw ValueError("Tensor::permute", "axes " + axes.str(), "each axis once",
                       "Give a permutation of 0 to rank - 1");
    }
    seen |= 1u << axis;
    shape[i] = shape_[axis];
    strides[i] = strides_[axis];
  }
  return view(shape, strides, offset_);
}

Tensor Tensor::transpose(int64_t a, int64_t b) const {
  check_defined("Tensor::transpose");
  const int i = normalize_axis("Tensor::transpose", a, rank());
  const int j = normalize_axis("Tensor::transpose", b, rank());
  Shape shape = shape_, strides = strides_;
  std::swap(shape[i], shape[j]);
  std::swap(strides[i], strides[j]);
  return view(shape, strides, offset_);
}

Tensor Tensor::slice(int64_t axis, int64_t start, int64_t stop, int64_t step) const {
  check_defined("Tensor::slice");
  const int i = normalize_axis("Tensor::slice", axis, rank());
  if (step == 0 || step == INT64_MIN) {
    throw ValueError("Tensor::slice", "step " + std::to_string(step), "a step forwards or backwards",
                     "Give 1 for all elements, -1 for all of them backwards");
  }
  // Bounds as Python moves them inside: backwards, the one before the first element is -1.
  const int64_t size = shape_[i], least = step < 0 ? -1 : 0, most = step < 0 ? size - 1 : size;
  const auto inside = [=](int64_t bound) { return std::clamp<int64_t>(bound < 0 ? bound + size : bound, least, most); };
  const int64_t first = inside(start), end = step < 0 && stop == kEnd ? -1 : inside(stop);
  const int64_t length = std::max<int64_t>(step < 0 ? first - end : end - first, 0), pace = std::abs(step);
  Shape shape = shape_, strides = strides_;
  shape[i] = length / pace + (length % pace != 0);
  if (shape[i] > 1) strides[i] *= step;
  return view(shape, strides, shape.numel() == 0 ? offset_ : offset_ + first * strides_[i]);
}

Tensor Tensor::select(int64_t axis, int64_t index) const {
  check_defined("Tensor::select");
  const int i = normalize_axis("Tensor::select", axis, rank());
  const int64_t size = shape_[i];
  if (index < -size || index >= size) {
    throw IndexError("Tensor::select",
                     "index " + std::to_string(index) + " on axis " + std::to_string(i) + " of " + str(),
                     size == 0 ? "an axis with elements" : std::to_string(-size) + " to " + std::to_string(size - 1),
                     "Check the index against size(axis)");
  }
  Shape shape = shape_, strides = strides_;
  shape.erase(i);
  strides.erase(i);
  return view(shape, strides, numel() == 0 ? offset_ : offset_ + (index < 0 ? index + size : index) * strides_[i]);
}

Tensor Tensor::operator[](int64_t index) const {
  check_defined("Tensor::operator[]");
  if (rank() == 0) {
    throw IndexError("Tensor::operator[]", "index " + std::to_string(index) + " of " + str(), "a tensor with an axis",
                     "Read a tensor of one element with item()");
  }
  return select(0, index);
}

Tensor Tensor::flip(int64_t axis) const {
  check_defined("Tensor::flip");
  const int i = normalize_axis("Tensor::flip", axis, rank());
  if (numel() == 0 || shape_[i] == 1) return *this;
  Shape strides = strides_;
  strides[i] = -strides[i];
  return view(shape_, strides, offset_ + (shape_[i] - 1) * strides_[i]);
}

Tensor Tensor::squeeze(int64_t axis) const {
  check_defined("Tensor::squeeze");
  const int i = normalize_axis("Tensor::squeeze", axis, rank());
  if (shape_[i] != 1) {
    throw ShapeError("Tensor::squeeze", "axis " + std::to_string(i) + " of " + str(), "an axis of size 1",
                     "Take one index with select()");
  }
  Shape shape = shape_, strides = strides_;
  shape.erase(i);
  strides.erase(i);
  return view(shape, strides, offset_);
}

Tensor Tensor::unsqueeze(int64_t axis) const {
  check_defined("Tensor::unsqueeze");
  const int i = normalize_axis("Tensor::unsqueeze", axis, rank() + 1);
  Shape shape = shape_, strides = strides_;
  strides.insert(i, i < rank() ? shape_[i] * strides_[i] : 1);
  shape.insert(i, 1);
  return view(shape, strides, offset_);
}

Tensor Tensor::broadcast_to(const Shape& shape) const {
  check_defined("Tensor::broadcast_to");
  const int lead = shape.rank() - rank();
  Shape strides = Shape::filled(shape.rank(), 0);
  bool fits = lead >= 0;
  for (int i = 0; fits && i < rank(); i++) {
    if (shape_[i] == shape[lead + i]) {
      strides[lead + i] = strides_[i];
    } else {
      fits = shape_[i] == 1;
    }
  }
  if (!fits || std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) {
    throw ShapeError("Tensor::broadcast_to", str() + " to " + shape.str(),
                     "sizes that are equal or 1, compared from the last dimension", "Use reshape() or unsqueeze()");
  }
  return view(shape, strides, offset_);
}

Tensor Tensor::as_strided(const Shape& shape, const Shape& strides, int64_t offset) const {
  check_defined("Tensor::as_strided");
  if (shape.rank() != strides.rank() || std::any_of(shape.begin(), shape.end(), [](int64_t n) { return n < 0; })) {
    throw ShapeError("Tensor::as_strided", "shape " + shape.str() + " with strides " + strides.str(),
                     "one stride for each size, sizes of 0 or more", "Check how they were computed");
  }
  // Lowest and highest element index that the view can reach.
  int64_t lowest = offset, highest = offset;
  bool fits = true;
  const bool is_empty = shape.numel() == 0;
  for (int i = 0; i < shape.rank() && !is_empty; i++) {
    int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(shape[i] - 1, strides[i], &reach);
    int64_t& end = reach < 0 ? lowest : highest;
    fits = fits && !__builtin_add_overflow(end, reach, &end);
  }
  const int64_t begin = storage_->begin() / size_of(dtype_), end = storage_->bytes() / size_of(dtype_);
  fits = fits && lowest >= begin && (is_empty ? highest <= end : highest < end);
  if (!fits) {
    throw IndexError(
        "Tensor::as_strided",
        "shape " + shape.str() + " with strides " + strides.str() + " from element " + std::to_string(offset),
        "elements " + std::to_string(begin) + " to " + std::to_string(end - 1) + " of the storage",
        "Keep offset + sum of (size - 1) * stride inside the storage");
  }
  return view(shape, strides, offset);
}

}  // namespace ashlar

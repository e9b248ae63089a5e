// A tensor in parts along an axis: views that share its storage. What cat() puts together; of a Var they are recorded,
// and their gradients are put together by it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "runtime/support/error.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// What has views: Tensor and Var.
template <class T>
concept Viewable = std::same_as<T, Tensor> || std::same_as<T, Var>;

namespace detail {

/// Parts of these sizes, which add up to the axis' size.
template <Viewable T>
std::vector<T> slices_of(const T& x, std::span<const int64_t> sizes, int64_t axis) {
  std::vector<T> parts;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    parts.push_back(x.slice(axis, start, start + size));
    start += size;
  }
  return parts;
}
inline std::vector<Tensor> parts_of(const Tensor& x, std::span<const int64_t> sizes, int64_t axis) {
  return slices_of(x, sizes, axis);
}
/// As one operation, whose gradient is written once: those of slices would each be as large as x.
std::vector<Var> parts_of(const Var& x, std::span<const int64_t> sizes, int64_t axis);

}  // namespace detail

/// Parts of these sizes along `axis`. Throws ShapeError unless they are 0 or more and add up to the axis' size,
/// IndexError.
template <Viewable T>
std::vector<T> split(const T& x, const Shape& sizes, int64_t axis = 0) {
  const int64_t whole = x.size(axis);
  int64_t sum = 0;
  bool fits = true;
  for (const int64_t size : sizes) {
    fits = fits && size >= 0 && size <= whole;
    sum += fits ? size : 0;
  }
  if (!fits || sum != whole) {
    throw ShapeError("split", "sizes " + sizes.str() + " of an axis of " + std::to_string(whole),
                     "sizes of 0 or more that add up to it", "Give all of them, or one size for all parts");
  }
  return detail::parts_of(x, std::vector<int64_t>(sizes.begin(), sizes.end()), axis);
}

/// Parts of `size` along `axis`, the last one shorter where it doesn't come out even; one part of an empty axis. Throws
/// ValueError on a size of 0 or less (0 is for an empty axis), IndexError.
template <Viewable T>
std::vector<T> split(const T& x, int64_t size, int64_t axis = 0) {
  const int64_t whole = x.size(axis);
  if (size < 0 || (size == 0 && whole > 0)) {
    throw ValueError("split", "parts of " + std::to_string(size) + " of an axis of " + std::to_string(whole),
                     "a size of 1 or more", "Give the parts' size, or their sizes");
  }
  std::vector<int64_t> sizes;
  int64_t left = whole;
  do {
    sizes.push_back(std::min(size, left));
    left -= sizes.back();
  } while (left > 0);
  return detail::parts_of(x, sizes, axis);
}

/// `chunks` parts along `axis`, of one size but for the last; fewer where the axis hasn't enough elements, as in
/// PyTorch. Throws ValueError on 0 chunks or less, IndexError.
template <Viewable T>
std::vector<T> chunk(const T& x, int64_t chunks, int64_t axis = 0) {
  if (chunks < 1) {
    throw ValueError("chunk", std::to_string(chunks) + " chunks", "1 or more", "Give into how many parts to cut");
  }
  const int64_t whole = x.size(axis), size = whole / chunks + (whole % chunks != 0);
  if (whole == 0) return std::vector<T>(static_cast<size_t>(chunks), x.slice(axis, 0, 0));
  return split(x, size, axis);
}

namespace ad {
using ashlar::chunk;
using ashlar::split;
}  // namespace ad

}  // namespace ashlar

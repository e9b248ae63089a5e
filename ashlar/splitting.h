// A tensor in parts along an axis: views that share its storage, of a Var recorded. What cat() puts together.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "runtime/support/error.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// What has views: Tensor and Var.
template <class T>
concept Viewable = std::same_as<T, Tensor> || std::same_as<T, Var>;

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
  std::vector<T> parts;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    parts.push_back(x.slice(axis, start, start + size));
    start += size;
  }
  return parts;
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
  std::vector<T> parts;
  int64_t start = 0;
  do {
    const int64_t stop = start + std::min(size, whole - start);
    parts.push_back(x.slice(axis, start, stop));
    start = stop;
  } while (start < whole);
  return parts;
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

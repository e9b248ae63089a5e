// A tensor restated plainly: which elements of which memory it shows. No strides, no offsets, nothing clever.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/tensor/shape.h"

namespace ashlar::fuzz {

/// Values are whole numbers that every dtype holds exactly.
class PlainTensor {
 public:
  /// Memory of its own.
  static PlainTensor dense(const Shape& shape, const std::vector<int>& values);

  const Shape& shape() const { return shape_; }
  /// Row-major.
  std::vector<int> values() const;
  bool shares_memory_with(const PlainTensor& other) const { return memory_ == other.memory_; }
  /// Whether two of its elements lie at one place.
  bool repeats_itself() const;

  void fill(int value);
  void copy(const PlainTensor& source);

  /// The view of this shape whose element at an index is this one's at `from(index)`.
  PlainTensor view(const Shape& shape, const std::function<Shape(const Shape& index)>& from) const;
  /// The same elements in the same order under another shape.
  PlainTensor reshaped(const Shape& shape) const;

 private:
  std::shared_ptr<std::vector<int>> memory_;
  std::vector<size_t> places_;  ///< of the elements, row-major
  Shape shape_;
};

}  // namespace ashlar::fuzz

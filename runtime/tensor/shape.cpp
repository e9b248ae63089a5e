#include "runtime/tensor/shape.h"

#include <algorithm>

#include "runtime/support/error.h"

namespace ashlar {

namespace {

void check_rank(int rank) {
  if (rank < 0 || rank > kMaxRank) {
    throw ShapeError("Shape", std::to_string(rank) + " dimensions", "0 to " + std::to_string(kMaxRank),
                     "Merge dimensions with reshape()");
  }
}

}  // namespace

Shape::Shape(std::initializer_list<int64_t> sizes) {
  check_rank(static_cast<int>(std::min<size_t>(sizes.size(), kMaxRank + 1)));
  std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  rank_ = static_cast<int>(sizes.size());
}

Shape Shape::filled(int rank, int64_t value) {
  check_rank(rank);
  Shape shape;
  shape.rank_ = rank;
  std::fill(shape.begin(), shape.end(), value);
  return shape;
}

void Shape::push_back(int64_t size) { insert(rank_, size); }

void Shape::insert(int position, int64_t size) {
  check_rank(rank_ + 1);
  std::copy_backward(begin() + position, end(), end() + 1);
  sizes_[position] = size;
  rank_++;
}

void Shape::erase(int position) {
  std::copy(begin() + position + 1, end(), begin() + position);
  rank_--;
}

int64_t Shape::checked_numel() const {
  if (std::find(begin(), end(), 0) != end()) return 0;
  int64_t product = 1;
  for (int64_t size : *this) {
    if (__builtin_mul_overflow(product, size, &product)) {
      throw ShapeError("Shape", str(), "fewer than 2^63 elements", "Use smaller sizes");
    }
  }
  return product;
}

std::string Shape::str() const {
  std::string text = "[";
  for (int i = 0; i < rank_; i++) {
    if (i > 0) text += ", ";
    text += std::to_string(sizes_[i]);
  }
  return text + "]";
}

Shape dense_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; i--) {
    strides[i] = stride;
    // Of no elements there may be sizes whose product is none: such strides wrap, and nothing is ever read by them.
    stride =
        static_cast<int64_t>(static_cast<uint64_t>(stride) * static_cast<uint64_t>(std::max<int64_t>(shape[i], 1)));
  }
  return strides;
}

Shape broadcast(const char* operation, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  const int lead = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); i++) {
    const int64_t x = longer[lead + i], y = shorter[i];
    if (x != y && x != 1 && y != 1) {
      throw ShapeError(operation, a.str() + " and " + b.str(),
                       "sizes that are equal or 1, compared from the last dimension", "Use reshape() or unsqueeze()");
    }
    result[lead + i] = x == 1 ? y : x;
  }
  return result;
}

int normalize_axis(const char* operation, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    const std::string needed =
        rank == 0 ? "a tensor of rank 1 or more" : std::to_string(-rank) + " to " + std::to_string(rank - 1);
    throw IndexError(operation, "axis " + std::to_string(axis) + " of a rank " + std::to_string(rank) + " tensor",
                     needed, "Axes count from 0, or from the end with negative numbers");
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int normalize_reduced_axis(const char* operation, int64_t axis, int rank) {
  return normalize_axis(operation, axis, std::max(rank, 1));
}

}  // namespace ashlar

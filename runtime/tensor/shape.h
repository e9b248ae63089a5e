// Shape: a short list of 64-bit sizes (or strides, or axes) without heap memory.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace ashlar {

inline constexpr int kMaxRank = 8;

/// Up to kMaxRank integers, outermost dimension first. Throws ShapeError when more are given.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes);
  /// Of one dimension, so that x.reshape(-1), x.sum(0) and Tensor::zeros(3) are what they look like.
  template <std::integral Size>
  requires(!std::same_as<Size, bool>) Shape(Size size)
      : Shape({static_cast<int64_t>(size)}) {}  // NOLINT(google-explicit-constructor)
  static Shape filled(int rank, int64_t value);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t& operator[](int i) { return sizes_[i]; }
  int64_t operator[](int i) const { return sizes_[i]; }
  int64_t back() const { return sizes_[rank_ - 1]; }
  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }
  int64_t* begin() { return sizes_.data(); }
  int64_t* end() { return sizes_.data() + rank_; }

  void push_back(int64_t size);
  void insert(int position, int64_t size);
  void erase(int position);

  /// Product of the sizes; 1 for rank 0. Throws ShapeError above 2^63.
  int64_t numel() const {
    int64_t product = 1;
    bool overflows = false;
    for (int64_t size : *this) overflows |= __builtin_mul_overflow(product, size, &product);
    return overflows ? checked_numel() : product;
  }
  /// "[2, 3, 5]"
  std::string str() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; i++) {
      if (a.sizes_[static_cast<size_t>(i)] != b.sizes_[static_cast<size_t>(i)]) return false;
    }
    return true;
  }

 private:
  int64_t checked_numel() const;  // a product of 0 may overflow on the way
  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

/// Row-major strides, in elements, of a dense tensor of this shape.
Shape dense_strides(const Shape& shape);

/// Result of broadcasting by NumPy's rule. Throws ShapeError naming `operation`.
Shape broadcast(const char* operation, const Shape& a, const Shape& b);

/// Axis counted from the end when negative. Throws IndexError naming `operation`.
int normalize_axis(const char* operation, int64_t axis, int rank);
/// The same for axes of reductions and rows, where a tensor of rank 0 counts as a row of one: its axis is 0 or -1, as
/// in PyTorch.
int normalize_reduced_axis(const char* operation, int64_t axis, int rank);

}  // namespace ashlar

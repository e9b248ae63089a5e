// The windows of convolution, pooling, unfold and fold: PyTorch's arguments, read and checked.
#pragma once

#include <array>
#include <string>

#include "runtime/launch/launch.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

using Pair = std::array<int64_t, 2>;

/// An argument that is one number for both axes, two of them, or left out. Throws ValueError on other counts, and on
/// numbers below `least`.
Pair pair_of(const char* operation, const char* name, const Shape& given, int64_t otherwise, int64_t least);

/// How windows lie on an image.
struct Window {
  Pair taps{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};

  /// How far a window reaches along an axis.
  int64_t extent(int axis) const { return dilation[axis] * (taps[axis] - 1) + 1; }
  /// Outputs along an axis of `size`. Throws ShapeError where the window is larger than the padded image, ValueError
  /// on sizes from 2²¹.
  int64_t outputs(const char* operation, int axis, int64_t size) const;
  /// How many outputs read one element at most.
  int64_t candidates(int axis) const { return (extent(axis) - 1) / stride[axis] + 1; }
  /// The scalars of a kernel with WindowScalars (generators/window.h), and those that follow them.
  template <class... More>
  std::array<Scalar, 8 + sizeof...(More)> scalars(More... more) const {
    return {taps[0], taps[1], stride[0], stride[1], padding[0], padding[1], dilation[0], dilation[1], Scalar(more)...};
  }
};

/// Throws ValueError, with what came, unless the groups of a convolution divide its channels.
void check_groups(const char* operation, int64_t groups, int64_t channels, const std::string& came);

/// Sizes and steps of a window from a call's arguments. Throws ValueError.
Window window_of(const char* operation, const Pair& taps, const Shape& stride, const Shape& padding,
                 const Shape& dilation);

/// PyTorch's pooling: windows `stride` apart, by default their own size; with `ceil_mode` the last one may begin inside
/// and end beyond the padding. Throws ValueError on a padding of more than half a window.
struct Pooling {
  Window window;
  bool ceil_mode = false;

  Pooling(const char* operation, const Shape& kernel_size, const Shape& stride, const Shape& padding,
          const Shape& dilation, bool ceil_mode);
  int64_t outputs(const char* operation, int axis, int64_t size) const;
};

/// Windows of which `outputs` cover `size` elements, and how many outputs read one of them at most.
struct AdaptiveAxis {
  int64_t taps = 1, candidates = 1;
  /// Throws ValueError unless both are positive and their product is below 2²¹.
  AdaptiveAxis(const char* operation, int64_t size, int64_t outputs);
};

/// x with four axes [n, c, h, w]: one that has three is one image. Throws ShapeError on others, ValueError on none.
Tensor as_images(const char* operation, const Tensor& x);
/// The result of such a call, with as many axes as its input had.
Tensor without_batch_unless(const Tensor& y, bool has_batch);

}  // namespace ashlar

// Pools over one, two and three axes, of those over images; the maxima alone.
#pragma once

#include <cmath>

#include "ashlar/ops/binary_maths.h"
#include "ashlar/ops/compare.h"
#include "ashlar/ops/pooling.h"
#include "operators/composed/values.h"

namespace ashlar::composed {

/// Axes of the window that a pass over images has to do with: sizes of these two, or what stands for none.
struct ImagePass {
  int rows, columns;  ///< -1: none
  Shape of(const Shape& sizes, int64_t none) const {
    return {rows < 0 ? none : sizes[rows], columns < 0 ? none : sizes[columns]};
  }
};

/// Windows over 1, 2 or 3 axes as windows over images: of one row; themselves; over height and width, and then over the
/// depth. `pool(x, pass)` pools the last two axes.
template <int kAxes, class T, class Pool>
T by_images(const char* operation, const T& x, const Pool& pool) {
  const int rank = x.shape().rank();
  if constexpr (kAxes == 1) {
    return pool(as_rows(operation, x), ImagePass{-1, 0}).squeeze(-2);
  } else if constexpr (kAxes == 2) {
    return pool(x, ImagePass{0, 1});
  } else {
    if (rank != 4 && rank != 5) {
      throw ShapeError(operation, shown(x), "[n, channels, depth, height, width], or without n", "Reshape it");
    }
    const int64_t depth = x.size(-3), planes = x.size(-4) * (rank == 5 ? x.size(0) : 1);
    const T images = pool(x.reshape({planes * depth, x.size(-2), x.size(-1)}), ImagePass{1, 2});
    const int64_t height = images.size(1), width = images.size(2);
    const T y = pool(images.reshape({planes, depth, height * width}), ImagePass{0, -1});
    return y.reshape(rank == 5 ? Shape{x.size(0), x.size(1), y.size(1), height, width}
                               : Shape{x.size(0), y.size(1), height, width});
  }
}

/// The windows of a pool over `axes` axes; without a stride they lie beside each other.
struct PoolWindows {
  Shape kernel, stride, padding, dilation;
  PoolWindows(const char* operation, int axes, const Shape& kernel_size, const Shape& steps, const Shape& border = {},
              const Shape& gaps = {})
      : kernel(needed_sizes(operation, "kernel_size", kernel_size, axes)),
        stride(sizes_of(operation, steps, kernel)),
        padding(sizes_of(operation, border, Shape::filled(axes, 0))),
        dilation(sizes_of(operation, gaps, Shape::filled(axes, 1))) {}
};

template <int kAxes, class T>
T max_pool(const char* operation, const T& x, const PoolWindows& windows, bool ceil_mode) {
  return by_images<kAxes>(operation, x, [&](const T& images, const ImagePass& pass) -> T {
    return max_pool2d_with_indices(images, pass.of(windows.kernel, 1), pass.of(windows.stride, 1),
                                   pass.of(windows.padding, 0), pass.of(windows.dilation, 1), ceil_mode)
        .y;
  });
}

template <int kAxes, class T>
T avg_pool(const char* operation, const T& x, const PoolWindows& windows, bool ceil_mode, bool count_include_pad,
           int64_t divisor_override) {
  return by_images<kAxes>(operation, x, [&](const T& images, const ImagePass& pass) -> T {
    // Of two passes the first only adds where a divisor is given.
    const bool is_last = kAxes < 3 || pass.rows == 0;
    const int64_t divisor = divisor_override == 0 || is_last ? divisor_override : 1;
    return avg_pool2d(images, pass.of(windows.kernel, 1), pass.of(windows.stride, 1), pass.of(windows.padding, 0),
                      ceil_mode, count_include_pad, divisor);
  });
}

template <int kAxes, bool kIsMax, class T>
T adaptive_pool(const char* operation, const T& x, const Shape& output_size) {
  const Shape outputs = needed_sizes(operation, "output_size", output_size, kAxes);
  return by_images<kAxes>(operation, x, [&](const T& images, const ImagePass& pass) -> T {
    const Shape size{pass.rows < 0 ? images.size(-2) : outputs[pass.rows],
                     pass.columns < 0 ? images.size(-1) : outputs[pass.columns]};
    if constexpr (kIsMax) {
      return adaptive_max_pool2d_with_indices(images, size).y;
    } else {
      return adaptive_avg_pool2d(images, size);
    }
  });
}

/// (Σ x^p)^(1/p) of each window; where the sum is 0 the gradient is, too.
template <int kAxes, class T>
T lp_pool(const char* operation, const T& x, double norm_type, const PoolWindows& windows, bool ceil_mode) {
  if (!std::isfinite(norm_type) || norm_type == 0) {
    throw ValueError(operation, "norm_type = " + std::to_string(norm_type), "a finite number but 0",
                     "2 is the length of a window's elements as a vector");
  }
  // As PyTorch's, windows that reach beyond x, with ceil_mode, count as if they were whole: average times elements.
  const T mean = by_images<kAxes>(operation, T(pow(x, norm_type)), [&](const T& images, const ImagePass& pass) -> T {
    return avg_pool2d(images, pass.of(windows.kernel, 1), pass.of(windows.stride, 1), Shape{0, 0}, ceil_mode);
  });
  const Tensor is_zero = value_of(mean) == 0;
  const T sum = where(is_zero, 1.0, T(mul(mean, static_cast<double>(windows.kernel.numel()))));
  return where(is_zero, 0.0, T(pow(sum, 1 / norm_type)));
}

// ---- the operators

template <class T>
T max_pool1d(const T& x, const Axes& kernel_size, const Axes& stride, const Axes& padding, const Axes& dilation,
             bool ceil_mode) {
  return max_pool<1>("max_pool1d", x, {"max_pool1d", 1, kernel_size, stride, padding, dilation}, ceil_mode);
}

template <class T>
T max_pool2d(const T& x, const Axes& kernel_size, const Axes& stride, const Axes& padding, const Axes& dilation,
             bool ceil_mode) {
  return max_pool<2>("max_pool2d", x, {"max_pool2d", 2, kernel_size, stride, padding, dilation}, ceil_mode);
}

template <class T>
T max_pool3d(const T& x, const Axes& kernel_size, const Axes& stride, const Axes& padding, const Axes& dilation,
             bool ceil_mode) {
  return max_pool<3>("max_pool3d", x, {"max_pool3d", 3, kernel_size, stride, padding, dilation}, ceil_mode);
}

template <class T>
T avg_pool1d(const T& x, const Axes& kernel_size, const Axes& stride, const Axes& padding, bool ceil_mode,
             bool count_include_pad, int64_t divisor_override) {
  return avg_pool<1>("avg_pool1d", x, {"avg_pool1d", 1, kernel_size, stride, padding}, ceil_mode, count_include_pad,
                     divisor_override);
}

template <class T>
T avg_pool3d(const T& x, const Axes& kernel_size, const Axes& stride, const Axes& padding, bool ceil_mode,
             bool count_include_pad, int64_t divisor_override) {
  return avg_pool<3>("avg_pool3d", x, {"avg_pool3d", 3, kernel_size, stride, padding}, ceil_mode, count_include_pad,
                     divisor_override);
}

template <class T>
T adaptive_avg_pool1d(const T& x, const Axes& output_size) {
  return adaptive_pool<1, false>("adaptive_avg_pool1d", x, output_size);
}

template <class T>
T adaptive_avg_pool3d(const T& x, const Axes& output_size) {
  return adaptive_pool<3, false>("adaptive_avg_pool3d", x, output_size);
}

template <class T>
T adaptive_max_pool1d(const T& x, const Axes& output_size) {
  return adaptive_pool<1, true>("adaptive_max_pool1d", x, output_size);
}

template <class T>
T adaptive_max_pool2d(const T& x, const Axes& output_size) {
  return adaptive_pool<2, true>("adaptive_max_pool2d", x, output_size);
}

template <class T>
T adaptive_max_pool3d(const T& x, const Axes& output_size) {
  return adaptive_pool<3, true>("adaptive_max_pool3d", x, output_size);
}

template <class T>
T lp_pool1d(const T& x, double norm_type, const Axes& kernel_size, const Axes& stride, bool ceil_mode) {
  return lp_pool<1>("lp_pool1d", x, norm_type, {"lp_pool1d", 1, kernel_size, stride}, ceil_mode);
}

template <class T>
T lp_pool2d(const T& x, double norm_type, const Axes& kernel_size, const Axes& stride, bool ceil_mode) {
  return lp_pool<2>("lp_pool2d", x, norm_type, {"lp_pool2d", 2, kernel_size, stride}, ceil_mode);
}

template <class T>
T lp_pool3d(const T& x, double norm_type, const Axes& kernel_size, const Axes& stride, bool ceil_mode) {
  return lp_pool<3>("lp_pool3d", x, norm_type, {"lp_pool3d", 3, kernel_size, stride}, ceil_mode);
}

}  // namespace ashlar::composed

#include "nn/modules/pooling.h"

#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/var_arithmetic.h"
#include "nn/modules/axes.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// Axes of the window that a pass over images has to do with: sizes of these two, or what stands for none.
struct Pass {
  int rows, columns;  ///< -1: none
  Shape of(const Shape& sizes, int64_t none) const {
    return {rows < 0 ? none : sizes[rows], columns < 0 ? none : sizes[columns]};
  }
};

/// Windows over 1, 2 or 3 axes as windows over images: of one row; themselves; over height and width, and then over the
/// depth. `pool(x, pass)` pools the last two axes.
template <int kAxes, class Pool>
Var by_images(const Var& x, const Pool& pool) {
  if constexpr (kAxes == 1) {
    return pool(x.unsqueeze(-2), Pass{-1, 0}).squeeze(-2);
  } else if constexpr (kAxes == 2) {
    return pool(x, Pass{0, 1});
  } else {
    if (x.rank() < 4 || x.rank() > 5) {
      throw ShapeError("a pool of 3 axes", x.value().str(), "[n, channels, depth, height, width], or without n",
                       "Reshape it");
    }
    const int64_t depth = x.size(-3), planes = x.size(-4) * (x.rank() == 5 ? x.size(0) : 1);
    const Var images = pool(x.reshape({planes * depth, x.size(-2), x.size(-1)}), Pass{1, 2});
    const int64_t height = images.size(1), width = images.size(2);
    const Var y = pool(images.reshape({planes, depth, height * width}), Pass{0, -1});
    return y.reshape(x.rank() == 5 ? Shape{x.size(0), x.size(1), y.size(1), height, width}
                                   : Shape{x.size(0), y.size(1), height, width});
  }
}

/// One for each axis; no stride is the kernel.
template <class Derived, int kAxes>
Shape sizes(const Shape& given, const Shape& otherwise = {}) {
  return for_each_axis(class_name(typeid(Derived)), given.empty() ? otherwise : given, kAxes);
}

}  // namespace

template <class Derived, int kAxes>
MaxPool<Derived, kAxes>::MaxPool(const Shape& kernel_size, const Shape& stride, const Shape& padding,
                                 const Shape& dilation, bool ceil_mode)
    : kernel_(sizes<Derived, kAxes>(kernel_size)),
      stride_(sizes<Derived, kAxes>(stride, kernel_)),
      padding_(sizes<Derived, kAxes>(padding)),
      dilation_(sizes<Derived, kAxes>(dilation)),
      ceil_mode_(ceil_mode) {}

template <class Derived, int kAxes>
Var MaxPool<Derived, kAxes>::forward(const Var& x) const {
  return by_images<kAxes>(x, [&](const Var& images, const Pass& pass) {
    return ad::max_pool2d_with_indices(images, pass.of(kernel_, 1), pass.of(stride_, 1), pass.of(padding_, 0),
                                       pass.of(dilation_, 1), ceil_mode_)
        .y;
  });
}

template class MaxPool<MaxPool1d, 1>;
template class MaxPool<MaxPool2d, 2>;
template class MaxPool<MaxPool3d, 3>;

template <class Derived, int kAxes>
AvgPool<Derived, kAxes>::AvgPool(const Shape& kernel_size, const Shape& stride, const Shape& padding, bool ceil_mode,
                                 bool count_include_pad, int64_t divisor_override)
    : kernel_(sizes<Derived, kAxes>(kernel_size)),
      stride_(sizes<Derived, kAxes>(stride, kernel_)),
      padding_(sizes<Derived, kAxes>(padding)),
      ceil_mode_(ceil_mode),
      count_include_pad_(count_include_pad),
      divisor_(divisor_override) {}

template <class Derived, int kAxes>
Var AvgPool<Derived, kAxes>::forward(const Var& x) const {
  return by_images<kAxes>(x, [&](const Var& images, const Pass& pass) {
    // Of two passes the first only adds where a divisor is given.
    const bool is_last = kAxes < 3 || pass.rows == 0;
    const int64_t divisor = divisor_ == 0 || is_last ? divisor_ : 1;
    return ad::avg_pool2d(images, pass.of(kernel_, 1), pass.of(stride_, 1), pass.of(padding_, 0), ceil_mode_,
                          count_include_pad_, divisor);
  });
}

template class AvgPool<AvgPool1d, 1>;
template class AvgPool<AvgPool2d, 2>;
template class AvgPool<AvgPool3d, 3>;

template <class Derived, int kAxes, bool kIsMax>
AdaptivePool<Derived, kAxes, kIsMax>::AdaptivePool(const Shape& output_size)
    : size_(sizes<Derived, kAxes>(output_size)) {}

template <class Derived, int kAxes, bool kIsMax>
Var AdaptivePool<Derived, kAxes, kIsMax>::forward(const Var& x) const {
  return by_images<kAxes>(x, [&](const Var& images, const Pass& pass) {
    const Shape size{pass.rows < 0 ? images.size(-2) : size_[pass.rows],
                     pass.columns < 0 ? images.size(-1) : size_[pass.columns]};
    return kIsMax ? ad::adaptive_max_pool2d_with_indices(images, size).y : ad::adaptive_avg_pool2d(images, size);
  });
}

template class AdaptivePool<AdaptiveAvgPool1d, 1, false>;
template class AdaptivePool<AdaptiveAvgPool2d, 2, false>;
template class AdaptivePool<AdaptiveMaxPool1d, 1, true>;
template class AdaptivePool<AdaptiveMaxPool2d, 2, true>;
template class AdaptivePool<AdaptiveAvgPool3d, 3, false>;
template class AdaptivePool<AdaptiveMaxPool3d, 3, true>;

template <class Derived, int kAxes>
LPPool<Derived, kAxes>::LPPool(double norm_type, const Shape& kernel_size, const Shape& stride, bool ceil_mode)
    : power_(norm_type),
      kernel_(sizes<Derived, kAxes>(kernel_size)),
      stride_(sizes<Derived, kAxes>(stride, kernel_)),
      ceil_mode_(ceil_mode) {
  if (std::isfinite(norm_type) && norm_type != 0) return;
  throw ValueError(class_name(typeid(Derived)), "norm_type = " + std::to_string(norm_type), "a finite number but 0",
                   "2 is the length of a window's elements as a vector");
}

template <class Derived, int kAxes>
Var LPPool<Derived, kAxes>::forward(const Var& x) const {
  // As PyTorch's, windows that reach beyond x, with ceil_mode, count as if they were whole: average times elements.
  const Var mean = by_images<kAxes>(ad::pow(x, power_), [&](const Var& images, const Pass& pass) {
    return ad::avg_pool2d(images, pass.of(kernel_, 1), pass.of(stride_, 1), Shape{0, 0}, ceil_mode_);
  });
  const Tensor is_zero = mean.value() == 0;
  const Var sum = ad::where(is_zero, 1.0, ad::mul(mean, static_cast<double>(kernel_.numel())));
  return ad::where(is_zero, 0.0, ad::pow(sum, 1 / power_));
}

template class LPPool<LPPool1d, 1>;
template class LPPool<LPPool2d, 2>;
template class LPPool<LPPool3d, 3>;

}  // namespace ashlar::nn

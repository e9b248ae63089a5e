#include "nn/modules/pooling.h"

#include "ashlar/ad.h"
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
    const Shape size = pass.of(size_, 1);
    return kIsMax ? ad::adaptive_max_pool2d_with_indices(images, size).y : ad::adaptive_avg_pool2d(images, size);
  });
}

template class AdaptivePool<AdaptiveAvgPool1d, 1, false>;
template class AdaptivePool<AdaptiveAvgPool2d, 2, false>;
template class AdaptivePool<AdaptiveMaxPool1d, 1, true>;
template class AdaptivePool<AdaptiveMaxPool2d, 2, true>;

}  // namespace ashlar::nn

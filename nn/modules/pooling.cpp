#include "nn/modules/pooling.h"

#include <cmath>

#include "ashlar/ad.h"
#include "nn/modules/axes.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// One for each axis; no stride is the kernel.
template <class Derived, int kAxes>
Shape sizes(const Shape& given, const Shape& otherwise = {}) {
  return for_each_axis(class_name(typeid(Derived)), given.empty() ? otherwise : given, kAxes);
}

/// The operator of so many axes.
template <int kAxes, class Operator>
constexpr Operator of_axes(Operator one, Operator two, Operator three) {
  return kAxes == 1 ? one : kAxes == 2 ? two : three;
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
  constexpr auto kPool = of_axes<kAxes>(ad::max_pool1d, ad::max_pool2d, ad::max_pool3d);
  return kPool(x, kernel_, stride_, padding_, dilation_, ceil_mode_);
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
  constexpr auto kPool = of_axes<kAxes>(ad::avg_pool1d, ad::avg_pool2d, ad::avg_pool3d);
  return kPool(x, kernel_, stride_, padding_, ceil_mode_, count_include_pad_, divisor_);
}

template class AvgPool<AvgPool1d, 1>;
template class AvgPool<AvgPool2d, 2>;
template class AvgPool<AvgPool3d, 3>;

template <class Derived, int kAxes, bool kIsMax>
AdaptivePool<Derived, kAxes, kIsMax>::AdaptivePool(const Shape& output_size)
    : size_(sizes<Derived, kAxes>(output_size)) {}

template <class Derived, int kAxes, bool kIsMax>
Var AdaptivePool<Derived, kAxes, kIsMax>::forward(const Var& x) const {
  constexpr auto kMaxima = of_axes<kAxes>(ad::adaptive_max_pool1d, ad::adaptive_max_pool2d, ad::adaptive_max_pool3d);
  constexpr auto kMeans = of_axes<kAxes>(ad::adaptive_avg_pool1d, ad::adaptive_avg_pool2d, ad::adaptive_avg_pool3d);
  return kIsMax ? kMaxima(x, size_) : kMeans(x, size_);
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
  constexpr auto kPool = of_axes<kAxes>(ad::lp_pool1d, ad::lp_pool2d, ad::lp_pool3d);
  return kPool(x, power_, kernel_, stride_, ceil_mode_);
}

template class LPPool<LPPool1d, 1>;
template class LPPool<LPPool2d, 2>;
template class LPPool<LPPool3d, 3>;

}  // namespace ashlar::nn

#include "nn/modules/convolution.h"

#include <algorithm>
#include <string>

#include "ashlar/ad.h"
#include "nn/modules/axes.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

void check_sizes(const std::string& name, int64_t in, int64_t out, const Shape& kernel, int64_t groups) {
  const bool is_positive =
      in > 0 && out > 0 && groups > 0 && std::all_of(kernel.begin(), kernel.end(), [](int64_t k) { return k > 0; });
  if (is_positive && in % groups == 0 && out % groups == 0) return;
  throw ValueError(name,
                   std::to_string(in) + " to " + std::to_string(out) + " channels in " + std::to_string(groups) +
                       " groups by a window of " + kernel.str(),
                   "positive sizes, and groups that divide both numbers of channels",
                   "Pass the size of x's channels as `in_channels`");
}

PadMode pad_mode(PaddingMode mode) {
  switch (mode) {
    case PaddingMode::reflect:
      return PadMode::reflect;
    case PaddingMode::replicate:
      return PadMode::replicate;
    case PaddingMode::circular:
      return PadMode::circular;
    case PaddingMode::zeros:
      break;
  }
  return PadMode::constant;
}

std::string described(int64_t in, int64_t out, const Shape& weight) {
  Shape kernel = weight;
  kernel.erase(0);
  kernel.erase(0);
  return std::to_string(in) + " -> " + std::to_string(out) + ", kernel " + kernel.str();
}

/// kernel and channels as the sizes of a weight.
Shape weight_shape(int64_t first, int64_t second, const Shape& kernel) {
  Shape shape{first, second};
  for (const int64_t size : kernel) shape.push_back(size);
  return shape;
}

}  // namespace

template <class Derived, int kAxes>
Convolution<Derived, kAxes>::Convolution(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
                                         const ConvolutionOptions& options)
    : options_(options) {
  const std::string name = class_name(typeid(Derived));
  const Shape kernel = for_each_axis(name, kernel_size, kAxes);
  for (Shape* sizes : {&options_.stride, &options_.padding, &options_.dilation}) {
    *sizes = for_each_axis(name, *sizes, kAxes);
  }
  check_sizes(name, in_channels, out_channels, kernel, options.groups);
  const int64_t inputs = in_channels / options.groups;
  this->draw(weight_shape(out_channels, inputs, kernel), out_channels, inputs * kernel.numel(), options);
}

template <class Derived, int kAxes>
Var Convolution<Derived, kAxes>::forward(const Var& given, Activation activation) const {
  Var x = given;
  Shape padding = options_.padding;
  if (options_.padding_mode != PaddingMode::zeros) {
    Shape sides;  // the last axis comes first
    for (int i = kAxes - 1; i >= 0; i--) sides.push_back(padding[i]), sides.push_back(padding[i]);
    x = ad::pad(x, sides, pad_mode(options_.padding_mode));
    padding = Shape::filled(kAxes, 0);
  }
  const Shape &stride = options_.stride, &dilation = options_.dilation;
  const Var &weight = this->weight_, &bias = this->bias_;
  const int64_t groups = options_.groups;
  const bool is_relu = activation == Activation::relu;
  Var y;
  if constexpr (kAxes == 1) {
    y = ad::conv1d(x, weight, bias, stride, padding, dilation, groups, Conv1dActivation{is_relu});
  } else if constexpr (kAxes == 2) {
    y = ad::conv2d(x, weight, bias, stride, padding, dilation, groups, Conv2dActivation{is_relu});
  } else {
    y = ad::conv3d(x, weight, bias, stride, padding, dilation, groups, Conv3dActivation{is_relu});
  }
  return activation == Activation::gelu ? ad::gelu(y) : y;
}

template <class Derived, int kAxes>
std::string Convolution<Derived, kAxes>::details() const {
  const Shape& shape = this->weight_.shape();
  return described(shape[1] * options_.groups, shape[0], shape);
}

template class Convolution<Conv1d, 1>;
template class Convolution<Conv2d, 2>;
template class Convolution<Conv3d, 3>;

template <class Derived, int kAxes>
ConvTranspose<Derived, kAxes>::ConvTranspose(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
                                             const ConvTransposeOptions& options)
    : options_(options) {
  const std::string name = class_name(typeid(Derived));
  const Shape kernel = for_each_axis(name, kernel_size, kAxes);
  for (Shape* sizes : {&options_.stride, &options_.padding, &options_.output_padding, &options_.dilation}) {
    *sizes = for_each_axis(name, *sizes, kAxes);
  }
  check_sizes(name, in_channels, out_channels, kernel, options.groups);
  const int64_t outputs = out_channels / options.groups;
  this->draw(weight_shape(in_channels, outputs, kernel), out_channels, outputs * kernel.numel(), options);
}

template <class Derived, int kAxes>
Var ConvTranspose<Derived, kAxes>::forward(const Var& x) const {
  const auto& [stride, padding, output_padding, groups, has_bias, dilation, device, dtype, random] = options_;
  const Var &weight = this->weight_, &bias = this->bias_;
  if constexpr (kAxes == 1) {
    return ad::conv_transpose1d(x, weight, bias, stride, padding, output_padding, groups, dilation);
  } else if constexpr (kAxes == 2) {
    return ad::conv_transpose2d(x, weight, bias, stride, padding, output_padding, groups, dilation);
  } else {
    return ad::conv_transpose3d(x, weight, bias, stride, padding, output_padding, groups, dilation);
  }
}

template <class Derived, int kAxes>
std::string ConvTranspose<Derived, kAxes>::details() const {
  const Shape& shape = this->weight_.shape();
  return described(shape[0], shape[1] * options_.groups, shape);
}

template class ConvTranspose<ConvTranspose1d, 1>;
template class ConvTranspose<ConvTranspose2d, 2>;
template class ConvTranspose<ConvTranspose3d, 3>;

}  // namespace ashlar::nn

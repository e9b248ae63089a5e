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

/// What conv1d and conv2d check themselves.
void check_volumes(const std::type_info& type, const Var& x, int64_t channels) {
  if ((x.rank() == 4 || x.rank() == 5) && x.size(-4) == channels) return;
  throw ShapeError(class_name(type), x.value().str(),
                   "[n, " + std::to_string(channels) + ", depth, height, width], or without n",
                   "Give the module the channels of x, or reshape it");
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

struct Window {
  Shape stride, padding, dilation;
};

/// y[n, o, d] = Σ_k conv2d(x[n, :, d stride + k dilation - padding], weight[o, :, k]): unfolded along the depth, the
/// frames under a window are channels of one image.
Var conv3d(const Var& x, const Var& weight, const Var& bias, const Window& window, int64_t groups,
           Conv2dActivation activation) {
  const int64_t n = x.size(0), c = x.size(1), d = x.size(2), h = x.size(3), w = x.size(4);
  const auto& [stride, padding, dilation] = window;
  const int64_t out = weight.size(0), k = weight.size(2);
  const Var under = ad::unfold(x.reshape({n, c, d, h * w}), {k, 1}, {dilation[0], 1}, {padding[0], 0}, {stride[0], 1});
  const int64_t depth = under.size(2) / std::max<int64_t>(h * w, 1);
  const Var images = under.reshape({n, c * k, depth, h, w}).permute({0, 2, 1, 3, 4}).reshape({n * depth, c * k, h, w});
  const Var y =
      ad::conv2d(images, weight.reshape({out, weight.size(1) * k, weight.size(3), weight.size(4)}), bias,
                 {stride[1], stride[2]}, {padding[1], padding[2]}, {dilation[1], dilation[2]}, groups, activation);
  return y.reshape({n, depth, out, y.size(2), y.size(3)}).permute({0, 2, 1, 3, 4});
}

/// y[n, o, d stride + k dilation - padding] += conv_transpose2d(x[n, :, d], weight[:, o, k]): images with a channel for
/// each k, folded along the depth.
Var conv_transpose3d(const Var& x, const Var& weight, const Var& bias, const Window& window,
                     const Shape& output_padding, int64_t groups) {
  const int64_t n = x.size(0), c = x.size(1), d = x.size(2), h = x.size(3), w = x.size(4);
  const auto& [stride, padding, dilation] = window;
  const int64_t k = weight.size(2), out = weight.size(1) * groups;
  const int64_t depth = (d - 1) * stride[0] - 2 * padding[0] + dilation[0] * (k - 1) + 1 + output_padding[0];
  const Var images = x.permute({0, 2, 1, 3, 4}).reshape({n * d, c, h, w});
  const Var spread = ad::conv_transpose2d(
      images, weight.reshape({c, weight.size(1) * k, weight.size(3), weight.size(4)}), {}, {stride[1], stride[2]},
      {padding[1], padding[2]}, {output_padding[1], output_padding[2]}, groups, {dilation[1], dilation[2]});
  const int64_t plane = spread.size(2) * spread.size(3);
  const Var columns = spread.reshape({n, d, out * k, plane}).permute({0, 2, 1, 3}).reshape({n, out * k, d * plane});
  const Var y = ad::fold(columns, {depth, plane}, {k, 1}, {dilation[0], 1}, {padding[0], 0}, {stride[0], 1})
                    .reshape({n, out, depth, spread.size(2), spread.size(3)});
  return bias.defined() ? ad::add(y, bias.reshape({out, 1, 1, 1})) : y;
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
  Window window{options_.stride, options_.padding, options_.dilation};
  if (options_.padding_mode != PaddingMode::zeros) {
    Shape sides;  // the last axis comes first
    for (int i = kAxes - 1; i >= 0; i--) sides.push_back(window.padding[i]), sides.push_back(window.padding[i]);
    x = ad::pad(x, sides, pad_mode(options_.padding_mode));
    window.padding = Shape::filled(kAxes, 0);
  }
  const auto& [stride, padding, dilation] = window;
  const Var &weight = this->weight_, &bias = this->bias_;
  const bool is_relu = activation == Activation::relu;
  Var y;
  if constexpr (kAxes == 1) {
    y = ad::conv1d(x, weight, bias, stride, padding, dilation, options_.groups,
                   is_relu ? Conv1dActivation::relu : Conv1dActivation::none);
  } else {
    const auto fused = is_relu ? Conv2dActivation::relu : Conv2dActivation::none;
    if constexpr (kAxes == 2) {
      y = ad::conv2d(x, weight, bias, stride, padding, dilation, options_.groups, fused);
    } else {
      check_volumes(typeid(Derived), x, weight.size(1) * options_.groups);
      const bool is_single = x.rank() == 4;
      y = conv3d(is_single ? x.unsqueeze(0) : x, weight, bias, window, options_.groups, fused);
      if (is_single) y = y.squeeze(0);
    }
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
    // Images of one row.
    return ad::conv_transpose2d(x.unsqueeze(-2), weight.unsqueeze(-2), bias, {1, stride[0]}, {0, padding[0]},
                                {0, output_padding[0]}, groups, {1, dilation[0]})
        .squeeze(-2);
  } else if constexpr (kAxes == 2) {
    return ad::conv_transpose2d(x, weight, bias, stride, padding, output_padding, groups, dilation);
  } else {
    check_volumes(typeid(Derived), x, weight.size(0));
    const bool is_single = x.rank() == 4;
    const Var y = conv_transpose3d(is_single ? x.unsqueeze(0) : x, weight, bias, {stride, padding, dilation},
                                   output_padding, groups);
    return is_single ? y.squeeze(0) : y;
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

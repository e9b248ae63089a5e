#include "nn/modules/convolution.h"

#include <cmath>
#include <string>

#include "ashlar/ad.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// Both axes' sizes.
Shape pair(const Shape& given) { return given.rank() == 1 ? Shape{given[0], given[0]} : given; }

void check_sizes(const char* name, int64_t in, int64_t out, const Shape& kernel, int64_t groups) {
  const bool is_positive = in > 0 && out > 0 && groups > 0 && kernel.rank() > 0 && kernel.numel() > 0;
  if (is_positive && in % groups == 0 && out % groups == 0) return;
  throw ValueError(name,
                   std::to_string(in) + " to " + std::to_string(out) + " channels in " + std::to_string(groups) +
                       " groups by a window of " + kernel.str(),
                   "positive sizes, and groups that divide both numbers of channels",
                   "Pass the size of x's channels as `in_channels`");
}

/// weight and bias of PyTorch's first values: kaiming_uniform with a = sqrt(5) (He et al. 2015).
template <class Options>
void make_parameters(Var& weight, Var& bias, const Shape& shape, int64_t out, const Options& options) {
  const auto inputs = static_cast<float>(shape.numel() / shape[0]);
  const float bound = 1.0F / std::sqrt(inputs);
  const Placement placement = placement_of(options);
  weight = Var(initial_uniform(shape, -bound, bound, placement), true);
  if (options.bias) bias = Var(initial_uniform({out}, -bound, bound, placement), true);
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

std::string described(int64_t in, int64_t out, const Shape& kernel) {
  return std::to_string(in) + " -> " + std::to_string(out) + ", kernel " + kernel.str();
}

}  // namespace

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size, const Conv2dOptions& options)
    : options_(options) {
  const Shape kernel = pair(kernel_size);
  check_sizes("Conv2d", in_channels, out_channels, kernel, options.groups);
  make_parameters(weight_, bias_, {out_channels, in_channels / options.groups, kernel[0], kernel.back()}, out_channels,
                  options);
}

Var Conv2d::forward(const Var& x, Activation activation) const {
  const Shape padding = pair(options_.padding);
  const bool is_padded = options_.padding_mode != PaddingMode::zeros;
  const Var from =
      is_padded ? ad::pad(x, {padding[1], padding[1], padding[0], padding[0]}, pad_mode(options_.padding_mode)) : x;
  const bool is_relu = activation == Activation::relu;
  const Var y = ad::conv2d(from, weight_, bias_, options_.stride, is_padded ? Shape{0} : padding, options_.dilation,
                           options_.groups, is_relu ? Conv2dActivation::relu : Conv2dActivation::none);
  return activation == Activation::gelu ? ad::gelu(y) : y;
}

std::string Conv2d::details() const {
  const Shape& shape = weight_.value().shape();
  return described(shape[1] * options_.groups, shape[0], {shape[2], shape[3]});
}

Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, const Conv1dOptions& options)
    : options_(options) {
  check_sizes("Conv1d", in_channels, out_channels, {kernel_size}, options.groups);
  make_parameters(weight_, bias_, {out_channels, in_channels / options.groups, kernel_size}, out_channels, options);
}

Var Conv1d::forward(const Var& x, Activation activation) const {
  const int64_t padding = options_.padding;
  const bool is_padded = options_.padding_mode != PaddingMode::zeros;
  const Var from = is_padded ? ad::pad(x, {padding, padding}, pad_mode(options_.padding_mode)) : x;
  const bool is_relu = activation == Activation::relu;
  const Var y = ad::conv1d(from, weight_, bias_, {options_.stride}, {is_padded ? 0 : padding}, {options_.dilation},
                           options_.groups, is_relu ? Conv1dActivation::relu : Conv1dActivation::none);
  return activation == Activation::gelu ? ad::gelu(y) : y;
}

std::string Conv1d::details() const {
  const Shape& shape = weight_.value().shape();
  return described(shape[1] * options_.groups, shape[0], {shape[2]});
}

ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
                                 const ConvTranspose2dOptions& options)
    : options_(options) {
  const Shape kernel = pair(kernel_size);
  check_sizes("ConvTranspose2d", in_channels, out_channels, kernel, options.groups);
  make_parameters(weight_, bias_, {in_channels, out_channels / options.groups, kernel[0], kernel.back()}, out_channels,
                  options);
}

Var ConvTranspose2d::forward(const Var& x) const {
  return ad::conv_transpose2d(x, weight_, bias_, options_.stride, options_.padding, options_.output_padding,
                              options_.groups, options_.dilation);
}

std::string ConvTranspose2d::details() const {
  const Shape& shape = weight_.value().shape();
  return described(shape[0], shape[1] * options_.groups, {shape[2], shape[3]});
}

}  // namespace ashlar::nn

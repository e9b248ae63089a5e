// Layers without parameters that slide a window over images, or pad them.
#pragma once

#include <string>
#include <utility>

#include "ashlar/ad.h"
#include "nn/module.h"

namespace ashlar::nn {

/// The maximum of each window, as in torch.nn.MaxPool2d. Sizes are one number for both axes, or {height, width}.
class MaxPool2d : public ModuleOf<MaxPool2d> {
 public:
  /// Without a stride windows lie beside each other.
  explicit MaxPool2d(Shape kernel_size, Shape stride = {}, Shape padding = {0}, Shape dilation = {1},
                     bool ceil_mode = false)
      : kernel_(kernel_size), stride_(stride), padding_(padding), dilation_(dilation), ceil_mode_(ceil_mode) {}

  /// x [n, c, h, w] or [c, h, w]
  Var forward(const Var& x) const {
    return ad::max_pool2d_with_indices(x, kernel_, stride_, padding_, dilation_, ceil_mode_).y;
  }
  std::string details() const override { return "kernel " + kernel_.str(); }

 private:
  Shape kernel_, stride_, padding_, dilation_;
  bool ceil_mode_;
};

/// The average of each window, as in torch.nn.AvgPool2d.
class AvgPool2d : public ModuleOf<AvgPool2d> {
 public:
  /// Without a stride windows lie beside each other. `divisor_override` 0: the number of elements.
  explicit AvgPool2d(Shape kernel_size, Shape stride = {}, Shape padding = {0}, bool ceil_mode = false,
                     bool count_include_pad = true, int64_t divisor_override = 0)
      : kernel_(kernel_size),
        stride_(stride),
        padding_(padding),
        ceil_mode_(ceil_mode),
        count_include_pad_(count_include_pad),
        divisor_(divisor_override) {}

  /// x [n, c, h, w] or [c, h, w]
  Var forward(const Var& x) const {
    return ad::avg_pool2d(x, kernel_, stride_, padding_, ceil_mode_, count_include_pad_, divisor_);
  }
  std::string details() const override { return "kernel " + kernel_.str(); }

 private:
  Shape kernel_, stride_, padding_;
  bool ceil_mode_, count_include_pad_;
  int64_t divisor_;
};

/// Averages over windows that together cover the image, as in torch.nn.AdaptiveAvgPool2d.
class AdaptiveAvgPool2d : public ModuleOf<AdaptiveAvgPool2d> {
 public:
  explicit AdaptiveAvgPool2d(Shape output_size) : size_(output_size) {}
  /// x [n, c, h, w] or [c, h, w]
  Var forward(const Var& x) const { return ad::adaptive_avg_pool2d(x, size_); }
  std::string details() const override { return "to " + size_.str(); }

 private:
  Shape size_;
};

/// Zeros around images, as in torch.nn.ZeroPad2d: one number, or {left, right, top, bottom}.
class ZeroPad2d : public ModuleOf<ZeroPad2d> {
 public:
  explicit ZeroPad2d(Shape padding)
      : padding_(padding.rank() == 1 ? Shape{padding[0], padding[0], padding[0], padding[0]} : padding) {}
  Var forward(const Var& x) const { return ad::pad(x, padding_); }
  std::string details() const override { return padding_.str(); }

 private:
  Shape padding_;
};

}  // namespace ashlar::nn

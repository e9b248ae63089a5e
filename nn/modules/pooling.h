// Layers that slide a window over the last axes. Sizes are one number for all of these, or one for each: {height,
// width}.
#pragma once

#include <string>

#include "nn/module.h"

namespace ashlar::nn {

/// The maximum of each window over the last kAxes axes, as in torch.nn.MaxPool2d; equal ones: the first has the
/// gradient.
template <class Derived, int kAxes>
class MaxPool : public ModuleOf<Derived> {
 public:
  /// Without a stride windows lie beside each other.
  explicit MaxPool(const Shape& kernel_size, const Shape& stride = {}, const Shape& padding = {0},
                   const Shape& dilation = {1}, bool ceil_mode = false);

  /// x [n, c, sizes…] or [c, sizes…]
  Var forward(const Var& x) const;
  std::string details() const override { return "kernel " + kernel_.str(); }

 private:
  Shape kernel_, stride_, padding_, dilation_;
  bool ceil_mode_;
};

class MaxPool1d : public MaxPool<MaxPool1d, 1> {
  using MaxPool::MaxPool;
};
class MaxPool2d : public MaxPool<MaxPool2d, 2> {
  using MaxPool::MaxPool;
};
/// The maximum over depths of those over images.
class MaxPool3d : public MaxPool<MaxPool3d, 3> {
  using MaxPool::MaxPool;
};

/// The average of each window, as in torch.nn.AvgPool2d.
template <class Derived, int kAxes>
class AvgPool : public ModuleOf<Derived> {
 public:
  /// Without a stride windows lie beside each other. `divisor_override` 0: the number of elements.
  explicit AvgPool(const Shape& kernel_size, const Shape& stride = {}, const Shape& padding = {0},
                   bool ceil_mode = false, bool count_include_pad = true, int64_t divisor_override = 0);

  /// x [n, c, sizes…] or [c, sizes…]
  Var forward(const Var& x) const;
  std::string details() const override { return "kernel " + kernel_.str(); }

 private:
  Shape kernel_, stride_, padding_;
  bool ceil_mode_, count_include_pad_;
  int64_t divisor_;
};

class AvgPool1d : public AvgPool<AvgPool1d, 1> {
  using AvgPool::AvgPool;
};
class AvgPool2d : public AvgPool<AvgPool2d, 2> {
  using AvgPool::AvgPool;
};
class AvgPool3d : public AvgPool<AvgPool3d, 3> {
  using AvgPool::AvgPool;
};

/// Averages, or maxima, over windows that together cover x, as in torch.nn.AdaptiveAvgPool2d and AdaptiveMaxPool2d.
template <class Derived, int kAxes, bool kIsMax>
class AdaptivePool : public ModuleOf<Derived> {
 public:
  explicit AdaptivePool(const Shape& output_size);
  /// x [n, c, sizes…] or [c, sizes…]
  Var forward(const Var& x) const;
  std::string details() const override { return "to " + size_.str(); }

 private:
  Shape size_;
};

class AdaptiveAvgPool1d : public AdaptivePool<AdaptiveAvgPool1d, 1, false> {
  using AdaptivePool::AdaptivePool;
};
class AdaptiveAvgPool2d : public AdaptivePool<AdaptiveAvgPool2d, 2, false> {
  using AdaptivePool::AdaptivePool;
};
class AdaptiveAvgPool3d : public AdaptivePool<AdaptiveAvgPool3d, 3, false> {
  using AdaptivePool::AdaptivePool;
};
class AdaptiveMaxPool1d : public AdaptivePool<AdaptiveMaxPool1d, 1, true> {
  using AdaptivePool::AdaptivePool;
};
class AdaptiveMaxPool2d : public AdaptivePool<AdaptiveMaxPool2d, 2, true> {
  using AdaptivePool::AdaptivePool;
};
class AdaptiveMaxPool3d : public AdaptivePool<AdaptiveMaxPool3d, 3, true> {
  using AdaptivePool::AdaptivePool;
};

/// (Σ x^p)^(1/p) of each window, as in torch.nn.LPPool2d; where the sum is 0 the gradient is, too.
template <class Derived, int kAxes>
class LPPool : public ModuleOf<Derived> {
 public:
  /// Without a stride windows lie beside each other. Throws ValueError unless norm_type is finite and not 0.
  LPPool(double norm_type, const Shape& kernel_size, const Shape& stride = {}, bool ceil_mode = false);

  /// x [n, c, sizes…] or [c, sizes…]
  Var forward(const Var& x) const;
  std::string details() const override { return "kernel " + kernel_.str(); }

 private:
  double power_;
  Shape kernel_, stride_;
  bool ceil_mode_;
};

class LPPool1d : public LPPool<LPPool1d, 1> {
  using LPPool::LPPool;
};
class LPPool2d : public LPPool<LPPool2d, 2> {
  using LPPool::LPPool;
};
class LPPool3d : public LPPool<LPPool3d, 3> {
  using LPPool::LPPool;
};

}  // namespace ashlar::nn

// Layers that move the elements of images about.
#pragma once

#include <cstdint>
#include <string>

#include "ashlar/ad/convolution.h"
#include "ashlar/ad/images.h"
#include "nn/module.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

/// [n, c r², h, w] to [n, c, h r, w r] (Shi et al. 2016, and torch.nn.PixelShuffle)
class PixelShuffle : public ModuleOf<PixelShuffle> {
 public:
  explicit PixelShuffle(int64_t upscale_factor) : factor_(upscale_factor) {}
  Var forward(const Var& x) const { return ad::pixel_shuffle(x, factor_); }
  std::string details() const override { return "factor " + std::to_string(factor_); }

 private:
  int64_t factor_;
};

/// What PixelShuffle undoes.
class PixelUnshuffle : public ModuleOf<PixelUnshuffle> {
 public:
  explicit PixelUnshuffle(int64_t downscale_factor) : factor_(downscale_factor) {}
  Var forward(const Var& x) const { return ad::pixel_unshuffle(x, factor_); }
  std::string details() const override { return "factor " + std::to_string(factor_); }

 private:
  int64_t factor_;
};

/// [n, c, …]: the channels (i, j) of c = groups · c / groups in the order (j, i) (Zhang et al. 2018, and
/// torch.nn.ChannelShuffle).
class ChannelShuffle : public ModuleOf<ChannelShuffle> {
 public:
  explicit ChannelShuffle(int64_t groups) : groups_(groups) {}
  /// Throws ShapeError unless groups divide the channels.
  Var forward(const Var& x) const { return ad::channel_shuffle(x, groups_); }
  std::string details() const override { return std::to_string(groups_) + " groups"; }

 private:
  int64_t groups_;
};

/// Windows of [n, c, h, w] as columns, [n, c · elements of a window, windows] (torch.nn.Unfold).
class Unfold : public ModuleOf<Unfold> {
 public:
  explicit Unfold(const Shape& kernel_size, const Shape& dilation = {1}, const Shape& padding = {0},
                  const Shape& stride = {1})
      : kernel_(kernel_size), dilation_(dilation), padding_(padding), stride_(stride) {}
  Var forward(const Var& x) const { return ad::unfold(x, kernel_, dilation_, padding_, stride_); }
  std::string details() const override { return "kernel " + kernel_.str(); }

 private:
  Shape kernel_, dilation_, padding_, stride_;
};

/// Columns added up where they lay in images of output_size (torch.nn.Fold).
class Fold : public ModuleOf<Fold> {
 public:
  Fold(const Shape& output_size, const Shape& kernel_size, const Shape& dilation = {1}, const Shape& padding = {0},
       const Shape& stride = {1})
      : size_(output_size), kernel_(kernel_size), dilation_(dilation), padding_(padding), stride_(stride) {}
  Var forward(const Var& x) const { return ad::fold(x, size_, kernel_, dilation_, padding_, stride_); }
  std::string details() const override { return "to " + size_.str() + ", kernel " + kernel_.str(); }

 private:
  Shape size_, kernel_, dilation_, padding_, stride_;
};

}  // namespace ashlar::nn

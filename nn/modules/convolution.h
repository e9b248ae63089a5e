// Convolutional layers. Sizes are one number for all axes, or one for each of them: {height, width}.
#pragma once

#include "nn/modules/weight_and_bias.h"
#include "runtime/forms/forms.h"

namespace ashlar::nn {

/// Where x ends: torch.nn.Conv2d's padding_mode.
enum class PaddingMode : uint8_t { zeros, reflect, replicate, circular };

struct ConvolutionOptions {
  Shape stride = {1};
  Shape padding = {0};
  Shape dilation = {1};
  int64_t groups = 1;
  bool bias = true;
  PaddingMode padding_mode = PaddingMode::zeros;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};
using Conv1dOptions = ConvolutionOptions;
using Conv2dOptions = ConvolutionOptions;
using Conv3dOptions = ConvolutionOptions;

/// The convolution of what has channels and kAxes axes behind them, as in torch.nn.Conv2d. Parameters "weight"
/// [out, in / groups, kernel…] and "bias" [out], uniform in ±1/sqrt(in / groups · kernel elements) at first.
template <class Derived, int kAxes>
class Convolution : public WeightAndBias<Derived> {
 public:
  /// For containers: forward takes an activation that its kernel computes in the same launch.
  static constexpr bool kTakesEpilogue = true;

  /// Throws ValueError unless the sizes are positive and `groups` divides both numbers of channels.
  Convolution(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
              const ConvolutionOptions& options = {});

  /// x [n, in, sizes…] or [in, sizes…]. Throws ShapeError, ValueError.
  Var forward(const Var& x) const { return forward(x, Activation::none); }
  Var forward(const Var& x, Activation activation) const;
  std::string details() const override;

 private:
  ConvolutionOptions options_;
};

/// x [n, in, l] or [in, l]
class Conv1d : public Convolution<Conv1d, 1> {
  using Convolution<Conv1d, 1>::Convolution;
};
/// x [n, in, h, w] or [in, h, w]
class Conv2d : public Convolution<Conv2d, 2> {
  using Convolution<Conv2d, 2>::Convolution;
};
/// x [n, in, d, h, w] or [in, d, h, w]: a convolution of images whose channels are those of all depths that stand under
/// a window, which takes as many times x's memory as windows overlap.
class Conv3d : public Convolution<Conv3d, 3> {
  using Convolution<Conv3d, 3>::Convolution;
};

struct ConvTransposeOptions {
  Shape stride = {1};
  Shape padding = {0};
  Shape output_padding = {0};
  int64_t groups = 1;
  bool bias = true;
  Shape dilation = {1};
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};
using ConvTranspose1dOptions = ConvTransposeOptions;
using ConvTranspose2dOptions = ConvTransposeOptions;
using ConvTranspose3dOptions = ConvTransposeOptions;

/// The gradient of a convolution's input as a layer, as in torch.nn.ConvTranspose2d. Parameters "weight"
/// [in, out / groups, kernel…] and "bias" [out], uniform in ±1/sqrt(out / groups · kernel elements) at first.
template <class Derived, int kAxes>
class ConvTranspose : public WeightAndBias<Derived> {
 public:
  /// Throws ValueError as Convolution.
  ConvTranspose(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
                const ConvTransposeOptions& options = {});

  /// x as Convolution's. Throws ShapeError, ValueError.
  Var forward(const Var& x) const;
  std::string details() const override;

 private:
  ConvTransposeOptions options_;
};

class ConvTranspose1d : public ConvTranspose<ConvTranspose1d, 1> {
  using ConvTranspose<ConvTranspose1d, 1>::ConvTranspose;
};
class ConvTranspose2d : public ConvTranspose<ConvTranspose2d, 2> {
  using ConvTranspose<ConvTranspose2d, 2>::ConvTranspose;
};
/// As Conv3d made of images: each depth spreads over as many as the kernel has, which are added where they meet.
class ConvTranspose3d : public ConvTranspose<ConvTranspose3d, 3> {
  using ConvTranspose<ConvTranspose3d, 3>::ConvTranspose;
};

}  // namespace ashlar::nn

// Convolutional layers.
#pragma once

#include "ashlar/ops.h"
#include "nn/initial.h"
#include "nn/module.h"
#include "runtime/forms/forms.h"

namespace ashlar::nn {

/// Where x ends: torch.nn.Conv2d's padding_mode.
enum class PaddingMode : uint8_t { zeros, reflect, replicate, circular };

/// Sizes are one number for both axes, or {height, width}.
struct Conv2dOptions {
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

/// The convolution of images, as in torch.nn.Conv2d. Parameters "weight" [out, in / groups, kernel height, width] and
/// "bias" [out], uniform in ±1/sqrt(in / groups · kernel elements) at first.
class Conv2d : public ModuleOf<Conv2d> {
 public:
  /// For containers: forward takes an activation that its kernel computes in the same launch.
  static constexpr bool kTakesEpilogue = true;

  /// Throws ValueError unless the sizes are positive and `groups` divides both numbers of channels.
  Conv2d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size, const Conv2dOptions& options = {});

  /// x [n, in, h, w] or [in, h, w]
  Var forward(const Var& x) const { return forward(x, Activation::none); }
  Var forward(const Var& x, Activation activation) const;
  std::string details() const override;

  const Var& weight() const { return weight_; }
  const Var& bias() const { return bias_; }  ///< undefined without bias

 protected:
  void members(Members& members) override {
    members.parameter("weight", weight_);
    members.parameter("bias", bias_);
  }

 private:
  Conv2dOptions options_;
  Var weight_, bias_;
};

/// Sizes along the one axis.
struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  PaddingMode padding_mode = PaddingMode::zeros;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// The convolution of sequences, as in torch.nn.Conv1d. Parameters "weight" [out, in / groups, kernel] and "bias"
/// [out].
class Conv1d : public ModuleOf<Conv1d> {
 public:
  static constexpr bool kTakesEpilogue = true;

  /// Throws ValueError as Conv2d.
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, const Conv1dOptions& options = {});

  /// x [n, in, l] or [in, l]
  Var forward(const Var& x) const { return forward(x, Activation::none); }
  Var forward(const Var& x, Activation activation) const;
  std::string details() const override;

  const Var& weight() const { return weight_; }
  const Var& bias() const { return bias_; }  ///< undefined without bias

 protected:
  void members(Members& members) override {
    members.parameter("weight", weight_);
    members.parameter("bias", bias_);
  }

 private:
  Conv1dOptions options_;
  Var weight_, bias_;
};

struct ConvTranspose2dOptions {
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

/// The gradient of a convolution's input as a layer, as in torch.nn.ConvTranspose2d. Parameters "weight"
/// [in, out / groups, kernel height, width] and "bias" [out].
class ConvTranspose2d : public ModuleOf<ConvTranspose2d> {
 public:
  /// Throws ValueError as Conv2d.
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, const Shape& kernel_size,
                  const ConvTranspose2dOptions& options = {});

  /// x [n, in, h, w] or [in, h, w]
  Var forward(const Var& x) const;
  std::string details() const override;

  const Var& weight() const { return weight_; }
  const Var& bias() const { return bias_; }  ///< undefined without bias

 protected:
  void members(Members& members) override {
    members.parameter("weight", weight_);
    members.parameter("bias", bias_);
  }

 private:
  ConvTranspose2dOptions options_;
  Var weight_, bias_;
};

}  // namespace ashlar::nn

// Normalisation of rows.
#pragma once

#include <optional>

#include "nn/modules/residual_stream.h"
#include "nn/modules/weight_and_bias.h"

namespace ashlar::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< not drawn from
};

/// (x - mean) / sqrt(variance + eps) · weight + bias over the last dimensions, which are `normalized_shape` (Ba, Kiros
/// and Hinton 2016, and torch.nn.LayerNorm). Parameters "weight" (ones at first) and "bias" (zeros) of that shape.
class LayerNorm : public WeightAndBias<LayerNorm> {
 public:
  /// Throws ValueError on an empty shape or a size that isn't positive.
  explicit LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options = {});

  /// Throws ShapeError when x doesn't end in the normalised shape.
  Var forward(const Var& x) const;
  /// {forward(x + residual), x + residual}, in one pass. Both are of one shape and dtype.
  ResultOfSum of_sum(const Var& x, const Var& residual) const;
  std::string details() const override;

 private:
  Shape shape_;
  double eps_;
};

struct RmsNormOptions {
  std::optional<double> eps = {};  ///< none: the machine epsilon of x's dtype, as in PyTorch
  bool elementwise_affine = true;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< not drawn from
};

/// x / sqrt(mean of x² + eps) · weight over the last dimensions (Zhang and Sennrich 2019, and torch.nn.RMSNorm).
/// Parameter "weight", ones at first.
class RMSNorm : public WeightAndBias<RMSNorm> {
 public:
  /// Throws ValueError on an empty shape or a size that isn't positive.
  explicit RMSNorm(const Shape& normalized_shape, const RmsNormOptions& options = {});

  /// Throws ShapeError when x doesn't end in the normalised shape.
  Var forward(const Var& x) const;
  /// {forward(x + residual), x + residual}, in one pass. Both are of one shape and dtype.
  ResultOfSum of_sum(const Var& x, const Var& residual) const;
  std::string details() const override;

 private:
  Shape shape_;
  std::optional<double> eps_;
};

}  // namespace ashlar::nn

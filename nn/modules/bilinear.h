// The bilinear layer.
#pragma once

#include "nn/modules/linear.h"
#include "nn/modules/weight_and_bias.h"

namespace ashlar::nn {

/// y[…,o] = Σ_ij x1[…,i] weight[o,i,j] x2[…,j] + bias[o]. Parameters "weight" [out, in1, in2] and "bias" [out], uniform
/// in ±1/sqrt(in1) at first, as in torch.nn.Bilinear. Computed as one product of the outer products x1 x2ᵀ, which take
/// in1 · in2 elements for each row.
class Bilinear : public WeightAndBias<Bilinear> {
 public:
  /// Throws ValueError unless all sizes are positive.
  Bilinear(int64_t in1, int64_t in2, int64_t out, const LinearOptions& options = {});

  /// x1 [..., in1] and x2 [..., in2], whose other sizes are equal, to [..., out]. Throws ShapeError.
  Var forward(const Var& x1, const Var& x2, Activation activation = Activation::none) const;
};

}  // namespace ashlar::nn

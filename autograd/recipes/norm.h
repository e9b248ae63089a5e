// Gradients of what a normalisation has for each column.
#pragma once

#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// dweight[c] = Σ_r dy[r,c] (x[r,c] - mean[r]) rstd[r] with c along `axis` and r over all others, summed in f32 in an
/// order given by the shape and rounded once to x's dtype: [columns]. An undefined `mean` is 0.
Tensor norm_weight_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd, int64_t axis);

/// Σ_r dy[r,c] with c along `axis` and r over all others: [columns].
Tensor sum_to_axis(const Tensor& dy, int64_t axis);

}  // namespace ashlar::recipes

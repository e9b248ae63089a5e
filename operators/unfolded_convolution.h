// Convolutions as products of matrices one of which is written down: the windows of the input, unfolded. It takes
// memory and its traffic, and has the plans that products have.
#pragma once

#include "operators/window.h"

namespace ashlar {

/// Elements of windows that are in memory at a time, 256 MB; or one image's, whoever calls sees to that.
inline constexpr int64_t kMostWindowElements = int64_t{1} << 26;

/// y[n, (g,o), p, q] = Σ_t weight[g, o, t] x[n, (g,c), …], t = (c,i,j), of f32 tensors with elements: x [n, groups · c,
/// h, w], weight [groups, o, c · taps] of any strides.
Tensor convolved_unfolded(const Tensor& x, const Tensor& weight, const Window& window, const Pair& outputs);

/// dweight[g, o, t] = Σ_n,p,q dy[n, (g,o), p, q] x[n, (g,c), …], as [groups, o, c · taps].
Tensor weight_gradient_unfolded(const Tensor& dy, const Tensor& x, const Window& window, int64_t groups);

/// dweight[g, o, c] = Σ_n,p,q dy[n, (g,o), p, q] x[n, (g,c), p, q], as [groups, o, c]: what one tap gives. Any device.
Tensor product_over_places(const Tensor& dy, const Tensor& x, int64_t groups);

/// Every stride-th row and column.
Tensor subsampled(const Tensor& x, const Pair& stride);

}  // namespace ashlar

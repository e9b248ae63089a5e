// Convolutions whose windows are gathered from frames as the sum goes on (generators/convolution.cpp): nothing of an
// image is written twice.
#pragma once

#include "operators/window.h"

namespace ashlar {

/// y[n, (g,o), p, q] = max(low, bias[(g,o)] + Σ_t weight[g, o, t] x[n, (g,c), …]), t = (c,i,j), of f32 tensors with
/// elements: x [n, groups · c, h, w], weight [groups, o, c · taps] of any strides, no bias where it is undefined.
/// `is_flipped`: a tap reads what the opposite one would.
Tensor convolved_gathered(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window& window,
                          const Pair& outputs, float low, bool is_flipped = false);

/// dweight[(g,o), t] = Σ_n,p,q dy[n, (g,o), p, q] x[n, (g,c), …], in three axes.
Tensor weight_gradient_gathered(const Tensor& dy, const Tensor& x, const Window& window, const Pair& outputs,
                                int64_t groups);

}  // namespace ashlar

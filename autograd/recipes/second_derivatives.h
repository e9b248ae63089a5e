// p f''(x) for element-wise functions f: what the gradient of "f_grad(dy, x) = dy f'(x)" needs. Composed of operators,
// so that they can be differentiated in their turn.
#pragma once

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// -p / x²
template <class T>
T log_second(const T& p, const T& x);
/// -p / (4 x^{3/2})
template <class T>
T sqrt_second(const T& p, const T& x);
/// 3 p / (4 x^{5/2})
template <class T>
T rsqrt_second(const T& p, const T& x);
/// -2 p tanh(x) (1 - tanh²(x))
template <class T>
T tanh_second(const T& p, const T& x);
/// p s (1 - s) (1 - 2 s), s = sigmoid(x)
template <class T>
T sigmoid_second(const T& p, const T& x);
/// p (2 - x²) e^{-x²/2} / √(2π)
template <class T>
T gelu_second(const T& p, const T& x);
/// p s (1 - s) (2 + x (1 - 2 s)), s = sigmoid(x)
template <class T>
T silu_second(const T& p, const T& x);

}  // namespace ashlar::recipes

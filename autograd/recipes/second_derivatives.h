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
/// p (2 s' u' + x (s'' u'² + s' u'')), s = sigmoid(u), u = √(8/π) (x + 0.044715 x³)
template <class T>
T gelu_tanh_second(const T& p, const T& x);
/// p (1 - t²) (2 s + x (s (1 - s) - 2 t s²)), t = tanh(softplus(x)), s = sigmoid(x)
template <class T>
T mish_second(const T& p, const T& x);
/// p / 3 between -3 and 3, else 0
template <class T>
T hardswish_second(const T& p, const T& x);
/// -2 p sign(x) / (1 + |x|)³
template <class T>
T softsign_second(const T& p, const T& x);
/// 0 above 0; below p times a constant: 1.0507 · 1.6733 e^x, alpha e^x, e^(x/alpha) / alpha
template <class T>
T selu_second(const T& p, const T& x);
template <class T>
T elu_second(const T& p, const T& x, double alpha);
template <class T>
T celu_second(const T& p, const T& x, double alpha);
/// p beta s (1 - s), s = sigmoid(beta x), 0 where beta x > threshold
template <class T>
T softplus_second(const T& p, const T& x, double beta, double threshold);
/// p ψ''(x), by the reflection about 1/2, the recurrence and the asymptotic series (DLMF 5.15)
template <class T>
T digamma_second(const T& p, const T& x);

}  // namespace ashlar::recipes

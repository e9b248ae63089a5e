// Gradients of element-wise functions of two and three tensors, with broadcasting, composed of operators. Where the
// elements have 16 bits all is computed in f32, and its sum to the operand's shape rounded once.
#pragma once

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y = a^b: da = dy b a^(b-1), 0 where b is 0
template <class T>
T pow_base_grad(const T& dy, const T& a, const T& b);
/// y = a^b: db = dy y ln a, 0 where a is 0 and b isn't negative
template <class T>
T pow_exponent_grad(const T& dy, const T& a, const T& b);
/// y = fmod(a, b): db = -dy trunc(a / b)
template <class T>
T fmod_divisor_grad(const T& dy, const T& a, const T& b);
/// y = remainder(a, b): db = -dy floor(a / b)
template <class T>
T remainder_divisor_grad(const T& dy, const T& a, const T& b);
/// dy p / (a² + b²), in `shape`: atan2(a, b) has p = b for a, and p = -a for b.
template <class T>
T atan2_grad(const T& dy, const T& p, const T& a, const T& b, const Shape& shape);
/// y = √(a² + b²): dy p / y for p = a, b, in p's shape
template <class T>
T hypot_grad(const T& dy, const T& p, const T& y);

/// y = where(condition, a, b): dy where the condition holds (for a), or where it doesn't (for b), else 0
template <class T>
T where_grad(const T& dy, const Tensor& condition, bool holds, const Shape& shape);
/// y = start + weight (end - start): dstart = dy (1 - weight), dend = dy weight, dweight = dy (end - start)
template <class T>
T lerp_start_grad(const T& dy, const T& weight, const Shape& shape);
template <class T>
T lerp_weight_grad(const T& dy, const T& start, const T& end, const Shape& shape);
/// value dy f, in `shape`: a factor beside f
template <class T>
T scaled_factor_grad(const T& dy, const T& f, double value, const Shape& shape);
/// value dy / b, in `shape`, and -value dy a / b², in b's
template <class T>
T scaled_dividend_grad(const T& dy, const T& b, double value, const Shape& shape);
template <class T>
T scaled_divisor_grad(const T& dy, const T& a, const T& b, double value);

/// y = prelu(x, weight): dx = dy, where x <= 0 dy weight;  dweight = Σ of dy x where x <= 0
template <class T>
T prelu_input_grad(const T& dy, const T& x, const T& weight);
template <class T>
T prelu_weight_grad(const T& dy, const T& x, const T& weight);
/// y = a sigmoid(b), a and b the halves of x: da = dy sigmoid(b), db = dy a sigmoid'(b)
template <class T>
T glu_grad(const T& dy, const T& x, int64_t axis);

}  // namespace ashlar::recipes

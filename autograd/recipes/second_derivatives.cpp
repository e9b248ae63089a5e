#include "autograd/recipes/second_derivatives.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

template <class T>
T log_second(const T& p, const T& x) {
  return neg(log_grad(log_grad(p, x), x));
}

template <class T>
T sqrt_second(const T& p, const T& x) {
  return affine(div(sqrt_grad(p, x), x), -0.5, 0.0);
}

template <class T>
T rsqrt_second(const T& p, const T& x) {
  return affine(div(rsqrt_grad(p, x), x), -1.5, 0.0);
}

template <class T>
T tanh_second(const T& p, const T& x) {
  return affine(mul(tanh_grad(p, x), tanh(x)), -2.0, 0.0);
}

template <class T>
T sigmoid_second(const T& p, const T& x) {
  return mul(sigmoid_grad(p, x), affine(sigmoid(x), -2.0, 1.0));
}

template <class T>
T gelu_second(const T& p, const T& x) {
  // x² may overflow in f16, and e is 0 then: so e is multiplied by x twice, and not by x².
  const T e = exp(affine(mul(x, x), -0.5, 0.0));
  constexpr double kDensity = 0.3989422804014327;  // 1 / √(2π)
  return mul(p, affine(sub(add(e, e), mul(x, mul(x, e))), kDensity, 0.0));
}

template <class T>
T silu_second(const T& p, const T& x) {
  return mul(sigmoid_grad(p, x), affine(mul(x, affine(sigmoid(x), -2.0, 1.0)), 1.0, 2.0));
}

template Tensor log_second(const Tensor&, const Tensor&);
template Var log_second(const Var&, const Var&);
template Tensor sqrt_second(const Tensor&, const Tensor&);
template Var sqrt_second(const Var&, const Var&);
template Tensor rsqrt_second(const Tensor&, const Tensor&);
template Var rsqrt_second(const Var&, const Var&);
template Tensor tanh_second(const Tensor&, const Tensor&);
template Var tanh_second(const Var&, const Var&);
template Tensor sigmoid_second(const Tensor&, const Tensor&);
template Var sigmoid_second(const Var&, const Var&);
template Tensor gelu_second(const Tensor&, const Tensor&);
template Var gelu_second(const Var&, const Var&);
template Tensor silu_second(const Tensor&, const Tensor&);
template Var silu_second(const Var&, const Var&);

}  // namespace ashlar::recipes

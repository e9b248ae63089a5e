#include "autograd/recipes/broadcast.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

template <class T>
T sum_to_shape(const T& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const int added = g.rank() - shape.rank();
  Shape axes;
  bool fits = added >= 0;
  for (int i = 0; fits && i < g.rank(); i++) {
    const int64_t size = i < added ? 1 : shape[i - added];
    fits = size == g.shape()[i] || size == 1;
    if (i < added || size != g.shape()[i]) axes.push_back(i);
  }
  if (!fits) {
    throw ShapeError("sum_to_shape", "shape " + g.shape().str(), "a tensor that " + shape.str() + " broadcasts to",
                     "Pass the gradient of the broadcast result");
  }
  // Axes of size 1 in front need a reshape, not a sum.
  bool any_larger = false;
  for (int64_t axis : axes) any_larger = any_larger || g.shape()[static_cast<int>(axis)] != 1;
  return (any_larger ? sum(g, axes, /*keepdim=*/true) : g).reshape(shape);
}

template <class T>
T mul_to_shape(const T& g, const T& x, const Shape& shape) {
  return sum_products_to_shape(
      shape, [](const T& a, const T& b) { return mul(a, b); }, g, x);
}

template <class T>
T div_to_shape(const T& g, const T& x, const Shape& shape) {
  return sum_products_to_shape(
      shape, [](const T& a, const T& b) { return div(a, b); }, g, x);
}

template <class T>
T divisor_grad(const T& dy, const T& a, const T& b) {
  // The sign goes to the divisor, which is the smaller one where it was broadcast.
  const auto products = [](const T& g, const T& x, const T& y) { return div(mul(g, div(x, y)), neg(y)); };
  return sum_products_to_shape(b.shape(), products, dy, a, b);
}

template <class T>
std::vector<T> sum_gradients(const T& dsum, const Shape& a, const Shape& b, Needs needs) {
  return {needs(0) ? sum_to_shape(dsum, a) : T(), needs(1) ? sum_to_shape(dsum, b) : T()};
}

template std::vector<Tensor> sum_gradients(const Tensor&, const Shape&, const Shape&, Needs);
template std::vector<Var> sum_gradients(const Var&, const Shape&, const Shape&, Needs);
template Tensor sum_to_shape(const Tensor&, const Shape&);
template Var sum_to_shape(const Var&, const Shape&);
template Tensor mul_to_shape(const Tensor&, const Tensor&, const Shape&);
template Var mul_to_shape(const Var&, const Var&, const Shape&);
template Tensor div_to_shape(const Tensor&, const Tensor&, const Shape&);
template Var div_to_shape(const Var&, const Var&, const Shape&);
template Tensor divisor_grad(const Tensor&, const Tensor&, const Tensor&);
template Var divisor_grad(const Var&, const Var&, const Var&);

}  // namespace ashlar::recipes

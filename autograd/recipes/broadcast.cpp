#include "autograd/recipes/broadcast.h"

#include "ashlar/ops.h"
#include "runtime/support/error.h"

namespace ashlar::recipes {

Tensor sum_to_shape(const Tensor& g, const Shape& shape) {
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
    throw ShapeError("sum_to_shape", g.str(), "a tensor that " + shape.str() + " broadcasts to",
                     "Pass the gradient of the broadcast result");
  }
  // Axes of size 1 in front need a reshape, not a sum.
  bool any_larger = false;
  for (int64_t axis : axes) any_larger = any_larger || g.shape()[static_cast<int>(axis)] != 1;
  return (any_larger ? sum(g, axes, /*keepdim=*/true) : g).reshape(shape);
}

bool sums_16_bits(const Tensor& g, const Shape& shape) { return size_of(g.dtype()) == 2 && g.numel() > shape.numel(); }

Tensor mul_to_shape(const Tensor& g, const Tensor& x, const Shape& shape) {
  return sum_products_to_shape(
      shape, [](const Tensor& a, const Tensor& b) { return mul(a, b); }, g, x);
}

Tensor div_to_shape(const Tensor& g, const Tensor& x, const Shape& shape) {
  return sum_products_to_shape(
      shape, [](const Tensor& a, const Tensor& b) { return div(a, b); }, g, x);
}

Tensor divisor_grad(const Tensor& dy, const Tensor& a, const Tensor& b) {
  // The sign goes to the divisor, which is the smaller one where it was broadcast.
  const auto products = [](const Tensor& g, const Tensor& x, const Tensor& y) {
    return div(mul(g, div(x, y)), neg(y));
  };
  return sum_products_to_shape(b.shape(), products, dy, a, b);
}

}  // namespace ashlar::recipes

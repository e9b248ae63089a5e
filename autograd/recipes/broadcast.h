// Gradients of broadcasting.
#pragma once

#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// The gradient of "x of `shape` was broadcast to g's shape": sums g over the axes that were added or stretched.
/// Returns g itself when the shapes agree. Throws ShapeError when `shape` doesn't broadcast to g's shape.
Tensor sum_to_shape(const Tensor& g, const Shape& shape);

/// Whether sum_to_shape would add up rounded elements: g has 16-bit elements and more of them than `shape`. Products of
/// which many cancel have to be taken in f32 then, and only their sum rounded.
bool sums_16_bits(const Tensor& g, const Shape& shape);

/// sum_to_shape(products(g, x…), shape), where `products` computes tensors of g's shape, in f32 where the elements have
/// 16 bits and are summed.
template <class Products, class... Others>
Tensor sum_products_to_shape(const Shape& shape, const Products& products, const Tensor& g, const Others&... x) {
  if (!sums_16_bits(g, shape)) return sum_to_shape(products(g, x...), shape);
  return sum_to_shape(products(g.to(DType::f32), x.to(DType::f32)...), shape).to(g.dtype());
}

/// g · x and g / x, summed to `shape` as above: the gradient of a factor, and that of a dividend.
Tensor mul_to_shape(const Tensor& g, const Tensor& x, const Shape& shape);
Tensor div_to_shape(const Tensor& g, const Tensor& x, const Shape& shape);
/// y = a / b: db = -dy (a / b) / b, summed to b's shape as above.
Tensor divisor_grad(const Tensor& dy, const Tensor& a, const Tensor& b);

}  // namespace ashlar::recipes

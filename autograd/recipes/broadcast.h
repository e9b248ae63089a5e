// Gradients of broadcasting. Like all recipes they exist for T = Tensor, and for T = Var, which records what they do.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// The gradient of "x of `shape` was broadcast to g's shape": sums g over the axes that were added or stretched.
/// Returns g itself when the shapes agree. Throws ShapeError when `shape` doesn't broadcast to g's shape.
template <class T>
T sum_to_shape(const T& g, const Shape& shape);

/// Whether sum_to_shape would add up rounded elements: g has 16-bit elements and more of them than `shape`. Products of
/// which many cancel have to be taken in f32 then, and only their sum rounded.
template <class T>
bool sums_16_bits(const T& g, const Shape& shape) {
  return size_of(g.dtype()) == 2 && g.numel() > shape.numel();
}

/// sum_to_shape(products(g, x…), shape), where `products` computes tensors of g's shape, in f32 where the elements have
/// 16 bits and are summed.
template <class Products, class T, class... Others>
T sum_products_to_shape(const Shape& shape, const Products& products, const T& g, const Others&... x) {
  if (!sums_16_bits(g, shape)) return sum_to_shape(products(g, x...), shape);
  return sum_to_shape(products(g.to(DType::f32), x.to(DType::f32)...), shape).to(g.dtype());
}

/// g · x and g / x, summed to `shape` as above: the gradient of a factor, and that of a dividend.
template <class T>
T mul_to_shape(const T& g, const T& x, const Shape& shape);
template <class T>
T div_to_shape(const T& g, const T& x, const Shape& shape);
/// y = a / b: db = -dy (a / b) / b, summed to b's shape as above.
template <class T>
T divisor_grad(const T& dy, const T& a, const T& b);
/// Of y = f(a + b), by the gradient of their sum: both inputs', undefined where not needed.
template <class T>
std::vector<T> sum_gradients(const T& dsum, const Shape& a, const Shape& b, Needs needs);

}  // namespace ashlar::recipes

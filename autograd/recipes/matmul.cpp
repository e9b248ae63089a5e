#include "autograd/recipes/matmul.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

Shape batch_of(Shape matrices) {
  for (int i = 0; i < 2; i++) matrices.erase(matrices.rank() - 1);
  return matrices;
}

/// g·h per batch as exactly as the product itself, summed over the batch axes that `shape` lacks.
template <class T>
T multiply_to_shape(const T& g, bool transpose_g, const T& h, bool transpose_h, const Shape& shape,
                    const MatmulOptions& product) {
  const MatmulOptions options{.transpose_a = transpose_g, .transpose_b = transpose_h, .allow_tf32 = product.allow_tf32};
  // The batches that are summed must not be rounded one by one before they cancel.
  const int64_t products = ashlar::broadcast("matmul", batch_of(g.shape()), batch_of(h.shape())).numel();
  const bool is_summed = products > batch_of(shape).numel();
  if (!is_summed || size_of(g.dtype()) != 2) return sum_to_shape(matmul(g, h, options), shape);
  return sum_to_shape(matmul(g.to(DType::f32), h.to(DType::f32), options), shape).to(g.dtype());
}

/// [batch…, rows, columns] as [batch · rows, columns].
template <class T>
T flattened(const T& x) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); i++) rows *= x.shape()[i];
  return x.reshape({rows, x.shape().back()});
}

}  // namespace

template <class T>
std::vector<T> matmul_grad(const T& dy, const T& a, const T& b, const T& bias, const T& y, const MatmulOptions& options,
                           Needs needs) {
  T dz = dy;
  if (options.activation == Activation::relu) dz = relu_grad(dy, y);
  if (options.activation == Activation::gelu) {  // z as large as y is computed again and not kept in the meantime
    MatmulOptions before = options;
    before.activation = Activation::none;
    dz = gelu_grad(dy, matmul(a, b, before, bias));
  }
  // Rank-1 operands: a is one row, b one column; transposing a vector changes nothing.
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const bool transpose_a = options.transpose_a && !row, transpose_b = options.transpose_b && !column;
  const T a2 = row ? a.unsqueeze(0) : a, b2 = column ? b.unsqueeze(1) : b;
  T g = column ? dz.unsqueeze(-1) : dz;
  if (row) g = g.unsqueeze(-2);

  std::vector<T> gradients(3);
  if (needs(0)) {  // dA = g·Bᵀ, or its transpose B·gᵀ where a was given transposed
    const T da = transpose_a ? multiply_to_shape(b2, transpose_b, g, true, a2.shape(), options)
                             : multiply_to_shape(g, false, b2, !transpose_b, a2.shape(), options);
    gradients[0] = da.reshape(a.shape());
  }
  if (needs(1)) {  // dB = Aᵀ·g, or its transpose gᵀ·A; one matrix for all batches: the sum over them is in the product
    const bool one_matrix = b2.rank() == 2 && a2.rank() > 2 && !transpose_a;
    const T left = one_matrix ? flattened(a2) : a2, right = one_matrix ? flattened(g) : g;
    const T db = transpose_b ? multiply_to_shape(right, true, left, transpose_a, b2.shape(), options)
                             : multiply_to_shape(left, !transpose_a, right, false, b2.shape(), options);
    gradients[1] = db.reshape(b.shape());
  }
  if (needs(2)) gradients[2] = sum_to_shape(g, {g.shape().back()});
  return gradients;
}

template std::vector<Tensor> matmul_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                         const MatmulOptions&, Needs);
template std::vector<Var> matmul_grad(const Var&, const Var&, const Var&, const Var&, const Var&, const MatmulOptions&,
                                      Needs);

}  // namespace ashlar::recipes

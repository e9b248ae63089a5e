// Matrices of a batch, as the operators of linear algebra see them.
#pragma once

#include "runtime/launch/kernel.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// x [batch…, rows, columns] as [count, rows, columns] of f32; copies only where strides or 16 bits force it.
struct Matrices {
  /// Throws DTypeError where x isn't of f32, f16 or bf16, ShapeError where it isn't a matrix or a batch of them.
  Matrices(const KernelInfo& operation, const Tensor& x);
  /// `y` [count, sizes…] with the batch's axes and the dtype again.
  Tensor unfolded(const Tensor& y) const;

  Shape batch;
  int64_t count = 1, rows = 0, columns = 0;
  DType dtype;
  Tensor x;
};

/// y's last two axes exchanged.
inline Tensor transposed(const Tensor& y) { return y.transpose(-2, -1); }

/// x[k,k] of each matrix x [count, n, n]: [count, n].
inline Tensor diagonal(const Tensor& x) {
  const Shape& strides = x.strides();
  return x.as_strided({x.size(0), x.size(1)}, {strides[0], strides[1] + strides[2]}, x.offset());
}

/// l of x = l lᵀ, of the lower triangles of x [count, n, n].
Tensor lower_factor(const Tensor& x);

/// y of a y = b, a [count, n, n] triangular, b [count, n, columns].
Tensor triangular_solution(const Tensor& a, const Tensor& b, bool upper, bool unit);

}  // namespace ashlar

// The operators that distances.cpp declares: C++ that calls other operators.
#include "ashlar/ops.h"
#include "ashlar/ops/distances.h"

namespace ashlar {

Tensor squared_distances_grad(const Tensor& dy, const Tensor& a, const Tensor& b) {
  // Σ_j dy[i,j] (a[i,k] - b[j,k]) = a[i,k] Σ_j dy[i,j] - (dy·b)[i,k]
  const Tensor of_a = mul(a, sum(dy, {1}, true));
  return affine(sub(of_a, matmul(dy, b)), 2, 0);
}

Tensor gaussian_kernel(const Tensor& a, const Tensor& b, double gamma) {
  return exp(affine(squared_distances(a, b), -gamma, 0));
}

}  // namespace ashlar

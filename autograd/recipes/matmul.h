// Gradient of matmul with its fused bias and activation.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "runtime/forms/forms.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y = activation(A·B + bias), A = a or aᵀ, B = b or bᵀ, batches broadcast, rank-1 operands as in NumPy.
/// With dz = dy (after ReLU: dy where y > 0; after GELU: dy · gelu'(z), with z computed once more):
///   dA = dz·Bᵀ,  dB = Aᵀ·dz,  dbias = Σ over all rows of dz
/// Returns {da, db, dbias}; undefined where not needed or without a bias (inputs are numbered a, b, bias). `y` is read
/// for ReLU only and `bias` for GELU only; they may be undefined otherwise.
template <class T>
std::vector<T> matmul_grad(const T& dy, const T& a, const T& b, const T& bias, const T& y, const MatmulOptions& options,
                           Needs needs);

}  // namespace ashlar::recipes

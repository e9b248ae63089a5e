// Products with weights as layers have them.
#pragma once

#include "ashlar/ops/binary.h"
#include "ashlar/ops/matmul.h"
#include "operators/composed/values.h"

namespace ashlar::composed {

template <class T>
T linear(const T& input, const T& weight, const T& bias) {
  if (weight.shape().rank() != 2) {
    throw ShapeError("linear", "weight: " + shown(weight), "[out, in]", "Reshape it");
  }
  return matmul(input, weight, {.transpose_b = true}, bias);
}

/// y[…,o] = activation(Σ_ij x1[…,i] weight[o,i,j] x2[…,j] + bias[o])
template <class T>
T bilinear_product(const char* operation, const T& x1, const T& x2, const T& weight, const T& bias,
                   Activation activation) {
  const int rank = x1.shape().rank();
  if (weight.shape().rank() != 3) {
    throw ShapeError(operation, "weight: " + shown(weight), "[out, in1, in2]", "Reshape it");
  }
  const int64_t out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  Shape wanted = x1.shape();
  if (rank > 0) wanted[rank - 1] = in2;
  if (rank < 1 || x1.size(-1) != in1 || x2.shape() != wanted) {
    throw ShapeError(operation, shown(x1) + " and " + shown(x2),
                     "[..., " + std::to_string(in1) + "] and [..., " + std::to_string(in2) + "], otherwise alike",
                     "Expand the one that is smaller with broadcast_to()");
  }
  wanted[rank - 1] = 1;
  const int64_t rows = wanted.numel();
  const T products = T(mul(x1.reshape({rows, in1, 1}), x2.reshape({rows, 1, in2}))).reshape({rows, in1 * in2});
  const T y = matmul(products, weight.reshape({out, in1 * in2}), {.transpose_b = true, .activation = activation}, bias);
  wanted[rank - 1] = out;
  return y.reshape(wanted);
}

template <class T>
T bilinear(const T& input1, const T& input2, const T& weight, const T& bias) {
  return bilinear_product("bilinear", input1, input2, weight, bias, Activation::none);
}

}  // namespace ashlar::composed

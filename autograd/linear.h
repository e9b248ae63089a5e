// The fully connected layer as one differentiable operation.
#pragma once

#include "autograd/var.h"
#include "runtime/forms/forms.h"

namespace ashlar::ad {

/// y = activation(x · weightᵀ + bias): x [..., in], weight [out, in] (PyTorch's layout), bias [out] or undefined,
/// y [..., out]. One kernel forward; bias and ReLU are fused into it.
///   dx = dz · weight,  dweight = dzᵀ · x,  dbias = Σ over rows of dz,  dz = dy (where y > 0, with ReLU)
/// Throws ShapeError, DTypeError or DeviceError as matmul does.
Var linear(const Var& x, const Var& weight, const Var& bias = {}, Activation activation = Activation::none);

}  // namespace ashlar::ad

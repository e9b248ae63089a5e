// What is done to a vendor's sums by a kernel of ours, where its library has no exact twin of our epilogue.
#pragma once

#include "runtime/launch/activation.h"
#include "runtime/launch/kernel.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

namespace kernels {
extern const KernelInfo bias_activation;
}

/// y[b,m,n] = activation(sums[b,m,n] + bias[n]), rounded once. `sums` is f32 and may be `y` itself; `bias` and `y` are
/// f32, f16 or bf16. Throws what launch() throws.
void bias_activation(const Tensor& sums, const Tensor& bias, Activation activation, const Tensor& y);

}  // namespace ashlar

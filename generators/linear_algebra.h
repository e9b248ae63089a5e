// What the kernels of factorisations and the operators that call them have to agree on (operators/linear_algebra.cpp,
// operators/orthogonal.cpp).
#pragma once

namespace ashlar {

constexpr int kFactorBlock = 64;  ///< columns of a block at most
constexpr int kFactorPanel = 48;  ///< the same of f64: in the 32 KB of shared memory that every OpenCL device has

}  // namespace ashlar

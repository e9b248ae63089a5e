// What the kernels of factorisations and the operators that call them have to agree on (operators/linear_algebra.cpp,
// operators/orthogonal.cpp).
#pragma once

namespace ashlar {

constexpr int kFactorBlock = 64;  ///< columns of a block at most
// In the 32 KB of shared memory that every OpenCL device has:
constexpr int kFactorPanel = 48;   ///< the same of f64
constexpr int kFactorTurned = 42;  ///< and those whose eigenvectors are found there, too

}  // namespace ashlar

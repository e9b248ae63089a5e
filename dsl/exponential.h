// What the functions of value.h share behind the scenes.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

/// True for an f32 of GPU code, where one instruction does what takes the CPU a polynomial.
bool is_gpu_f32(const Expr& x);
/// 2^x in that instruction, to 2 ULP: on CUDA an intrinsic of LLVM, else a built-in of OpenCL C.
Expr native_exp2(const Expr& x);

}  // namespace ashlar::dsl

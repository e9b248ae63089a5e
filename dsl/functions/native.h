// What a target has an instruction or a good function of its own for.
#pragma once

#include "dsl/value.h"

namespace ashlar::dsl {

/// True for an f32 of GPU code, where one instruction does what takes the CPU a polynomial.
bool is_gpu_f32(const Expr& x);
bool is_cuda_f32(const Expr& x);
/// True where the target's exponential and logarithm keep NaN, infinities and digits: everywhere but for f32 of a CPU.
bool is_native(const Expr& x);
/// A function of CUDA's libdevice, which Halide links into every kernel, or an intrinsic of LLVM.
Expr device_function(const char* name, const std::vector<Expr>& arguments);
/// a b + c and a b on a GPU, rounded once; no compiler makes one operation of these and what stands around them.
Expr fused_on_gpu(const Expr& a, const Expr& b, const Expr& c);
Expr product_on_gpu(const Expr& a, const Expr& b);
/// 2^x in that instruction, to 2 ULP: on CUDA an intrinsic of LLVM, else a built-in of OpenCL C.
Expr native_exp2(const Expr& x);

}  // namespace ashlar::dsl

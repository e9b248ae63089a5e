#include "dsl/functions/native.h"

#include "dsl/descriptor.h"

namespace ashlar::dsl {

bool is_gpu_f32(const Expr& x) { return on_gpu() && x.type() == Halide::Float(32); }
bool is_cuda_f32(const Expr& x) {
  return Descriptor::target.has_feature(Halide::Target::CUDA) && x.type() == Halide::Float(32);
}
bool is_native(const Expr& x) { return on_gpu() || x.type() != Halide::Float(32); }

Expr device_function(const char* name, const std::vector<Expr>& arguments) {
  return Halide::Internal::Call::make(Halide::Float(32), name, arguments, Halide::Internal::Call::PureExtern);
}

Expr fused_on_gpu(const Expr& a, const Expr& b, const Expr& c) {
  return device_function(is_cuda_f32(a) ? "llvm.fma.f32" : "fma", {a, b, c});
}

// OpenCL's compilers may fuse a product that is added to something, but not an fma.
Expr product_on_gpu(const Expr& a, const Expr& b) {
  return is_cuda_f32(a) ? device_function("llvm.nvvm.mul.rn.f", {a, b}) : fused_on_gpu(a, b, 0.0f);
}

Expr native_exp2(const Expr& x) {
  const bool is_cuda = Descriptor::target.has_feature(Halide::Target::CUDA);
  return device_function(is_cuda ? "llvm.nvvm.ex2.approx.ftz.f" : "native_exp2", {x});
}

}  // namespace ashlar::dsl

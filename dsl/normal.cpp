// The normal distribution, and functions that GPUs have an instruction for.
#include "dsl/descriptor.h"
#include "dsl/exponential.h"

namespace ashlar::dsl {

Value reciprocal(const Value& operand) {
  const Value x = detail::float_operand(operand, "reciprocal");
  const bool is_cuda = Descriptor::target.has_feature(Halide::Target::CUDA);
  if (!is_cuda || x.type() != Halide::Float(32)) return 1.0 / x;
  return Halide::Internal::Call::make(Halide::Float(32), "llvm.nvvm.rcp.approx.ftz.f", {x.expr()},
                                      Halide::Internal::Call::PureExtern);
}

// On a GPU Φ(-|x|) = 2^p(|x|), p a polynomial fitted to log2 Φ(-a) in [0, 5.6] for the least absolute error of Φ
// (Lawson's algorithm: 3e-8). Beyond, its negative leading coefficient takes it to 2^-∞.
Value normal_cdf(const Value& operand) {
  const Value value = detail::float_operand(operand, "normal_cdf");
  const Expr x = value.expr();
  if (!is_gpu_f32(x)) return sum_as_written(0.5, 0.5 * erf(value * 0.70710678118654752));
  constexpr float kCoefficients[] = {-2.726731281654793e-06f,  3.814390584011562e-05f, -0.00018057870329357684f,
                                     -0.00014994980301707983f, 0.0070799728855490685f, -0.052507612854242325f,
                                     -0.45920419692993164f,    -1.1511057615280151f,   -1.0f};
  const Expr a = Halide::abs(x);
  Expr p = kCoefficients[0];
  for (size_t i = 1; i < std::size(kCoefficients); i++) p = p * a + kCoefficients[i];
  const Expr tail = native_exp2(p);
  return Halide::select(x < 0.0f, tail, 1.0f - tail);
}

}  // namespace ashlar::dsl

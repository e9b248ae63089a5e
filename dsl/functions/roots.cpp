#include "dsl/functions/roots.h"

#include "dsl/functions/native.h"
#include "dsl/functions/parts.h"

namespace ashlar::dsl {

using namespace parts;

// CUDA has an instruction, to 2^-22.9 of the result; a root and a quotient, each rounded, take some forty.
Value rsqrt(const Value& operand) {
  const Value x = detail::float_operand(operand, "rsqrt");
  return is_cuda_f32(x) ? Value(device_function("llvm.nvvm.rsqrt.approx.f", {x.expr()})) : 1.0 / sqrt(x);
}

// x = z 2^3q with z in [½, 4): a polynomial for z without its power of two (fitted: 1.2e-5), then one step of Newton's.
Value cbrt(const Value& value) {
  const Expr x = detail::f32_operand(value, "cbrt").expr();
  constexpr float kSeries[] = {0.401318312f, 1.1461333f, -0.967290878f, 0.558478951f, -0.138651371f};
  const Expr size = magnitude(x), is_subnormal = less(size, 1.17549435e-38f);
  const Expr raw = Halide::reinterpret<int32_t>(Halide::select(is_subnormal, mul(size, 16777216.0f), size));
  const Expr m = Halide::reinterpret<float>((raw & 0x7fffff) | 0x3f000000);
  const Expr exponent = (raw >> 23) - 126 - Halide::select(is_subnormal, 24, 0);
  const Expr q = Halide::cast<int32_t>(Halide::cast<uint32_t>(exponent + 192) / word(3)) - 64;
  const Expr r = exponent - 3 * q;
  const Expr z = mul(m, power_of_two(r));
  const Expr root_of_power = Halide::select(r == 0, 1.0f, r == 1, 1.25992105f, 1.58740105f);
  const Expr y = mul(polynomial(m, kSeries), root_of_power);
  const Expr better = sub(y, mul(sub(y, div(z, mul(y, y))), 0.333333333f));
  const Expr result = with_sign(mul(better, power_of_two(q)), x);
  const Expr is_itself = magnitude_bits(x) >= word(kInfinity) || magnitude_bits(x) == word(0);
  return choose(is_itself, x, result);
}

// With the larger of the two taken out.
Value hypot(const Value& first, const Value& second) {
  auto [a_value, b_value] = detail::matched(first, second);
  const Expr a = magnitude(detail::f32_operand(a_value, "hypot").expr());
  const Expr b = magnitude(detail::f32_operand(b_value, "hypot").expr());
  const Expr larger = Halide::select(less(a, b), b, a), smaller = Halide::select(less(a, b), a, b);
  const Expr ratio = choose_bits(is_zero(larger), 0, div(smaller, larger));
  const Expr result = mul(larger, Halide::sqrt(add(1.0f, mul(ratio, ratio))));
  return choose_bits(is_infinite(a) || is_infinite(b), kInfinity,
                     choose_bits(is_nan_bits(a) || is_nan_bits(b), kNan, result));
}

}  // namespace ashlar::dsl

#include "dsl/functions/arithmetic.h"

#include "dsl/functions/parts.h"

namespace ashlar::dsl {

using namespace parts;

namespace {

// The larger of two numbers by less(first, second), which `joins` the bits of equal ones (zeros of both signs).
template <class Join>
Value extremum(const Value& first, const Value& second, const char* name, bool is_largest, Join join) {
  auto [a_value, b_value] = detail::matched(first, second);
  const Expr a = detail::f32_operand(a_value, name).expr(), b = detail::f32_operand(b_value, name).expr();
  const Expr takes_b = is_largest ? less(a, b) : less(b, a), takes_a = is_largest ? less(b, a) : less(a, b);
  const Expr number = Halide::select(takes_b, bits(b), takes_a, bits(a), join(bits(a), bits(b)));
  return real(Halide::select(is_nan_bits(a), bits(b), is_nan_bits(b), bits(a), number));
}

}  // namespace

// On CPUs in f64, where the product is exact: the sum is rounded to odd (Boldo & Melquiond 2008), so that rounding it
// again, to f32, is as if it had been exact.
Value fma(const Value& first, const Value& second, const Value& third) {
  const Expr a = detail::f32_operand(first, "fma").expr(), b = detail::f32_operand(second, "fma").expr(),
             c = detail::f32_operand(third, "fma").expr();
  if (is_gpu_f32(a)) return fused_on_gpu(a, b, c);
  const auto wide = [](const Expr& e) { return Halide::cast<double>(e); };
  const auto bits_of = [](const Expr& e) { return Halide::reinterpret<uint64_t>(e); };
  const auto constant = [](uint64_t value) { return Halide::Internal::make_const(Halide::UInt(64), value); };
  const Expr product = mul(wide(a), wide(b));
  const Pair sum = two_sum(product, wide(c));
  const Expr zero = Halide::Internal::make_zero(Halide::Float(64));
  // What is left points to the neighbour to take: away from 0 where it has the sum's sign.
  const Expr is_even = (bits_of(sum.high) & constant(1)) == constant(0);
  const Expr grows = ((bits_of(sum.high) ^ bits_of(sum.low)) >> constant(63)) == constant(0);
  const Expr odd = Halide::select(grows, bits_of(sum.high) + constant(1), bits_of(sum.high) - constant(1));
  const Expr is_exact = !(less(sum.low, zero) || less(zero, sum.low));  // also where it is NaN
  const Expr result =
      Halide::cast<float>(Halide::reinterpret<double>(Halide::select(is_exact || !is_even, bits_of(sum.high), odd)));
  return result;
}

Value fmax(const Value& a, const Value& b) {
  return extremum(a, b, "fmax", true, [](const Expr& x, const Expr& y) { return x & y; });
}
Value fmin(const Value& a, const Value& b) {
  return extremum(a, b, "fmin", false, [](const Expr& x, const Expr& y) { return x | y; });
}

Value fdim(const Value& first, const Value& second) {
  auto [a_value, b_value] = detail::matched(first, second);
  const Expr a = detail::f32_operand(a_value, "fdim").expr(), b = detail::f32_operand(b_value, "fdim").expr();
  const Expr difference = choose(at_most(a, b), 0.0f, sub(a, b));
  return choose_bits(is_nan_bits(a) || is_nan_bits(b), kNan, difference);
}

Value lerp(const Value& from, const Value& to, const Value& weight) {
  const Value a = detail::float_operand(from, "lerp"), b = detail::float_operand(to, "lerp");
  const Value w = weight.is_constant() ? Value(weight.as(a.type())) : weight, distance = b - a;
  return select(abs(w) < 0.5, sum_as_written(a, w * distance), sum_as_written(b, -(distance * (1.0 - w))));
}

}  // namespace ashlar::dsl

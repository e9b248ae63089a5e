// Logarithms of f32. log is the CPU's own, where Halide's loses NaN and infinities, and the target's on GPUs; the
// others are the same on every target.
#include "dsl/functions/logarithm.h"

#include "dsl/functions/error_function.h"
#include "dsl/functions/exponential.h"
#include "dsl/functions/native.h"
#include "dsl/functions/parts.h"

namespace ashlar::dsl {

using namespace parts;

namespace parts {

Scaled scaled(const Expr& x) {
  const Expr is_subnormal = less(x, 1.17549435e-38f);
  const Expr bits = Halide::reinterpret<int32_t>(Halide::select(is_subnormal, x * 16777216.0f, x));
  constexpr int32_t kRootHalf = 0x3f3504f3;
  const Expr exponent = (bits - kRootHalf) >> 23;
  return {Halide::reinterpret<float>(bits - (exponent << 23)), exponent - Halide::select(is_subnormal, 24, 0)};
}

// f³ p(f) - f²/2, p fitted for the least relative error of the logarithm (Lawson's algorithm: 7e-10)
Expr log1p_rest(const Expr& f) {
  constexpr float kSeries[] = {0.333333105f,  -0.249999866f, 0.200022265f,  -0.166692495f, 0.142186522f,
                               -0.123843685f, 0.118730374f,  -0.117897175f, 0.0691512525f};
  const Expr square = f * f;
  return square * f * polynomial(f, kSeries) - 0.5f * square;
}

Expr logarithm_or_special(const Expr& x, const Expr& value) {
  const Expr raw = bits(x), size = raw & word(kMagnitude);
  const Expr is_special = size > word(kInfinity) || raw == word(kInfinity);
  return real(
      Halide::select(is_special, raw, size == word(0), word(0xff800000u), raw >= word(kSign), word(kNan), bits(value)));
}

}  // namespace parts

namespace {

// Subnormals as zero: CUDA's instructions flush them, but libdevice's bit operations would half see them.
Expr flushed(const Expr& x) {
  const Expr bits = Halide::reinterpret<uint32_t>(x);
  const Expr is_subnormal = (bits & Expr(uint32_t{0x7f800000})) == Expr(uint32_t{0});
  return Halide::reinterpret<float>(Halide::select(is_subnormal, bits & Expr(uint32_t{0x80000000}), bits));
}

}  // namespace

// ln x = e ln 2 + ln m with x = m 2^e, m in [√½, √2);  ln m = 2 artanh(s), s = (m - 1) / (m + 1), a series in s² <=
// 0.03
Value log(const Value& value) {
  const Expr x = detail::float_operand(value, "log").expr();
  if (is_cuda_f32(x)) return device_function("__nv_logf", {flushed(x)});
  if (is_native(x)) return Halide::log(x);
  const auto [m, exponent] = scaled(x);
  const Expr e = Halide::cast<float>(exponent);
  const Expr s = (m - 1.0f) / (m + 1.0f), z = s * s;
  const Expr series = z * (1.0f / 3 + z * (1.0f / 5 + z * (1.0f / 7 + z * (1.0f / 9))));
  const Expr result = e * 0.693359375f + (2.0f * s + (2.0f * s * series - e * 2.12194440e-4f));
  return logarithm_or_special(x, result);
}

// log2 x = e + log2(1 + f) with x = (1 + f) 2^e; log2(e) = 1 + 0.4427 spares the product of f's leading digits. Sums
// from small to large.
Value log2(const Value& value) {
  const Expr x = detail::f32_operand(value, "log2").expr();
  constexpr float kLog2eMinus1 = 0.442695041f;
  const auto [m, e] = scaled(x);
  const Expr f = sub(m, 1.0f), rest = log1p_rest(f);
  const Expr small = add(add(mul(rest, kLog2eMinus1), mul(f, kLog2eMinus1)), rest);
  return logarithm_or_special(x, add(add(small, f), Halide::cast<float>(e)));
}

// log10 x = e log10(2) + log10(e) ln(1 + f), both constants in two parts, of which the products of the first are exact
// or nearly so
Value log10(const Value& value) {
  const Expr x = detail::f32_operand(value, "log10").expr();
  const auto [m, exponent] = scaled(x);
  const Expr e = Halide::cast<float>(exponent);
  const Expr f = sub(m, 1.0f), rest = log1p_rest(f);
  const Expr low = add(add(mul(e, 2.48745663e-4f), mul(rest, 0.434294482f)), mul(f, 7.00731903e-4f));
  return logarithm_or_special(x, add(add(low, mul(f, 0.43359375f)), mul(e, 0.30078125f)));
}

// ln(1 + x) = ln u + c / u with u = 1 + x rounded and c what the rounding lost; u = m 2^e as in log2
Value log1p(const Value& operand) {
  if (operand.type() == Halide::Float(64)) {
    // The rounding of 1 + x divided out (Goldberg 1991, theorem 4)
    const Expr x = operand.expr(), one = Value(1).as(x.type()), u = add(one, x), rest = sub(u, one);
    return Halide::select((Value(u) == 1.0).expr(), x, mul(Halide::log(u), div(x, rest)));
  }
  const Expr x = detail::float_operand(operand, "log1p").expr();
  const Expr u = add(1.0f, x);
  const Expr c = Halide::select(less(x, 1.0f), sub(x, sub(u, 1.0f)), sub(1.0f, sub(u, x)));
  const auto [m, exponent] = scaled(u);
  const Expr e = Halide::cast<float>(exponent), f = sub(m, 1.0f);
  const Expr lost = mul(mul(c, power_of_two(Halide::max(-exponent, -126))), sub(1.0f, f));
  const Expr low = add(add(log1p_rest(f), lost), mul(e, -2.12194440e-4f));
  const Expr result = add(add(low, f), mul(e, 0.693359375f));
  return choose(less(magnitude(x), 1e-8f), x, logarithm_or_special(u, result));
}

// ln(1 + x) = 2 artanh s with s = x / (2 + x) <= 1/3:  2s + 2s s² p(s²), p fitted for the least relative error
// (Lawson's algorithm: 6e-9)
Value log1p_to_one(const Value& operand) {
  const Expr x = detail::float_operand(operand, "log1p_to_one").expr();
  if (x.type() != Halide::Float(32)) return log1p(x);
  constexpr float kSeries[] = {0.3333321f, 0.20010765f, 0.14000885f, 0.14006083f};
  const Expr part = reciprocal(Value(2.0f + x)).expr();
  Expr s = x * part;
  if (is_cuda_f32(x)) {  // what the quick reciprocal left: x - s (2 + x)
    const Expr left = fused_on_gpu(-s, x, fused_on_gpu(-2.0f, s, x));
    s = fused_on_gpu(left, part, s);
  }
  const Expr square = s * s;
  const Expr twice = s + s;
  return twice + twice * (square * polynomial(square, kSeries));
}

namespace {

// The larger plus what `rest` makes of minus the distance; of equal ones, infinities among them, plus `of_equal`.
template <class Rest>
Value larger_and_rest(const Value& first, const Value& second, const char* name, double of_equal, Rest rest) {
  const auto [x, y] = detail::matched(first, second);
  const Value a = detail::f32_operand(x, name), b = detail::f32_operand(y, name);
  return select(a == b, a + of_equal, sum_as_written(max(a, b), rest(-abs(a - b))));
}

Value product_unless_zero(const Value& x, const Value& y, const Value& logarithm) {
  return select(x == 0 && !is_nan(y), 0.0, x * logarithm);
}

}  // namespace

Value logaddexp(const Value& a, const Value& b) {
  return larger_and_rest(a, b, "logaddexp", 0.69314718055994531, [](const Value& d) { return log1p_to_one(exp(d)); });
}
Value logaddexp2(const Value& a, const Value& b) {
  return larger_and_rest(a, b, "logaddexp2", 1.0,
                         [](const Value& d) { return 1.44269504088896341 * log1p_to_one(exp2(d)); });
}

Value xlogy(const Value& first, const Value& second) {
  const auto [x, y] = detail::matched(first, second);
  return product_unless_zero(detail::float_operand(x, "xlogy"), y, log(Value(y)));
}
Value xlog1py(const Value& first, const Value& second) {
  const auto [x, y] = detail::matched(first, second);
  return product_unless_zero(detail::float_operand(x, "xlog1py"), y, log1p(Value(y)));
}

Value entr(const Value& value) {
  const Expr x = detail::f32_operand(value, "entr").expr();
  const Expr result = choose(is_zero(x), 0.0f, mul(-x, log(Value(x)).expr()));
  return nan_from(x, choose_bits(is_negative(x) && !is_zero(x), kInfinity | kSign, result));
}

}  // namespace ashlar::dsl

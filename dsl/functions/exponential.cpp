// exp of f32 for the CPU, where Halide's own loses NaN and infinities, and digits without FMA, or takes twice as long
// (GPUs have good ones); exp2, expm1 and pow the same on every target.
#include "dsl/functions/exponential.h"

#include "dsl/descriptor.h"
#include "dsl/functions/native.h"
#include "dsl/functions/parts.h"

namespace ashlar::dsl {

using namespace parts;

namespace {

// e^x = 2^t (1 + d ln 2) with t = x log₂e rounded and d = x log₂e - t, what the rounding lost, by fused multiply-adds.
// One instruction gives 2^t to 2 ULP. Where it overflows or underflows, and for infinities, d has no meaning.
Expr exp_on_cuda(const Expr& x) {
  const Expr log2e = 1.44269502f, log2e_rest = 1.92596302e-8f;
  const Expr t = x * log2e;
  const Expr power = device_function("llvm.nvvm.ex2.approx.ftz.f", {t});
  const Expr lost = device_function("llvm.fma.f32", {x, log2e_rest, device_function("llvm.fma.f32", {x, log2e, -t})});
  constexpr uint32_t kMagnitude = 0x7fffffff, k128 = 0x43000000;  // |t| < 128, through the bits so that NaN isn't
  return Halide::select((Halide::reinterpret<uint32_t>(t) & kMagnitude) < Expr(k128),
                        device_function("llvm.fma.f32", {power, lost * 0.693147181f, power}), power);
}

}  // namespace

namespace parts {

// e^x = 2^k e^r with k = round(x / ln 2) and r = x - k ln 2 in two steps (Cody & Waite 1980); |r| <= ln 2 / 2, where
// 1 + r + r² q(r) with q fitted for the least relative error (Lawson's algorithm) leaves 3e-9.
Exponential exponential(const Expr& x) {
  constexpr float kSeries[] = {1.0f, 1.0f, 0.49999994f, 0.1666652f, 0.041668396f, 0.0083687855f, 0.0013814455f};
  // Added to a small number, 1.5 · 2^23 leaves it rounded in the last bits of the sum.
  constexpr float kRounding = 12582912.0f;
  const Expr sum = add(x * 1.44269504f, kRounding);
  const Expr k = sub(sum, kRounding);
  const Expr r = sub(x, k * 0.693359375f) + k * 2.12194440e-4f;
  return {Halide::reinterpret<int32_t>(sum) - Halide::reinterpret<int32_t>(Expr(kRounding)), polynomial(r, kSeries)};
}

Expr times_power(const Expr& value, const Expr& n) {
  const Expr half = n >> 1;
  return mul(mul(value, power_of_two(half)), power_of_two(n - half));
}

}  // namespace parts

namespace {

Expr exp_by_series(const Expr& x) {
  const auto [n, power] = exponential(held_within(x, -110.0f, 90.0f));
  return nan_from(x, times_power(power, n));
}

}  // namespace

Value exp(const Value& value) {
  const Expr x = detail::float_operand(value, "exp").expr();
  if (is_cuda_f32(x)) return exp_on_cuda(x);
  if (is_native(x)) return Halide::exp(x);
  return exp_by_series(x);
}

Value exp_to_one(const Value& value) {
  const Expr x = detail::float_operand(value, "exp_to_one").expr();
  return is_cuda_f32(x) ? Value(exp_by_series(x)) : exp(value);
}

// On the CPU without what only other arguments need; 0 where the result is no normal number, below ln 2^-126.
Value exp_below_zero(const Value& value) {
  const Expr x = detail::float_operand(value, "exp_below_zero").expr();
  if (is_gpu_f32(x)) return native_exp2(x * 1.44269504f);
  if (is_native(x)) return exp(value);
  const auto [n, power] = exponential(x);
  // The comparison alone is strict: strict_float() would take the fused multiply-adds from all above it.
  return Halide::select(less(x, -87.33654f), 0.0f, mul(power, power_of_two(n)));
}

namespace {
// 2^r for r in [-½, ½] as 1 + r q(r), q fitted for the least relative error (Lawson's algorithm: 2e-8)
Expr exp2_near_zero(const Expr& r) {
  constexpr float kSeries[] = {1.0f,           0.693147182f,   0.240226507f,   0.055503279f,
                               0.00961800572f, 0.00134002836f, 0.000154758978f};
  return polynomial(r, kSeries);
}
constexpr float kRounding = 12582912.0f;  // as in exponential()
}  // namespace

// 2^x = 2^k 2^r with k = round(x), r = x - k exactly
Value exp2(const Value& value) {
  const Expr x = detail::f32_operand(value, "exp2").expr();
  const Expr held = held_within(x, -152.0f, 129.0f);
  const Expr sum = add(held, kRounding), r = sub(held, sub(sum, kRounding));
  const Expr k = Halide::reinterpret<int32_t>(sum) - Halide::reinterpret<int32_t>(Expr(kRounding));
  return nan_from(x, times_power(exp2_near_zero(r), k));
}

// e^x - 1 = 2^k (p + 1) - 1 = 2 (2^(k-1) p + (2^(k-1) - ½)) with p = e^r - 1 = r + r² q(r), r as in exp; q fitted for
// the least relative error (Lawson's algorithm: 2e-8). For k = 0 that is p itself.
Value expm1(const Value& operand) {
  if (operand.type() == Halide::Float(64)) {
    const Value x = operand;
    Value series = 1.0;
    for (int n = 17; n >= 2; n--) series = 1.0 + x * (1.0 / n) * series;
    return select(abs(x) < 0.5, x * series, exp(x) - 1.0);
  }
  const Expr x = detail::float_operand(operand, "expm1").expr();
  constexpr float kSeries[] = {0.5f, 0.166665435f, 0.0416662805f, 0.00836660247f, 0.00139464799f};
  const Expr held = held_within(x, -40.0f, 90.0f);
  const Expr sum = add(held * 1.44269504f, kRounding), k = sub(sum, kRounding);
  const Expr r = add(sub(held, mul(k, 0.693359375f)), mul(k, 2.12194440e-4f));
  const Expr n = Halide::reinterpret<int32_t>(sum) - Halide::reinterpret<int32_t>(Expr(kRounding));
  const Expr p = r + r * r * polynomial(r, kSeries);
  const Expr half_scale = power_of_two(Halide::min(n, 128) - 1);
  const Expr result = mul(2.0f, add(mul(half_scale, p), sub(half_scale, 0.5f)));
  const Expr overflows = less(88.7228394f, x);
  return choose(is_nan_bits(x) || less(magnitude(x), 1e-8f), x, choose_bits(overflows, kInfinity, result));
}

namespace parts {

// log2(x) for x > 0 to 2^-34 of itself, in two floats. With m = x 2^-e and s = (m - 1) / (m + 1), which is made in two
// floats too, ln m = 2 artanh s = 2s + ⅔ s³ + s⁵ p(s²), p its Taylor polynomial: s² is below 0.03.
Pair log2_in_two(const Expr& x) {
  constexpr float kSeries[] = {2.0f / 5, 2.0f / 7, 2.0f / 9, 2.0f / 11};
  constexpr float kTwoThirds = 0.666666687f, kTwoThirdsRest = -1.98682151e-8f;
  constexpr float kLog2e = 1.44269502f, kLog2eRest = 1.92596302e-8f;
  const Scaled scale = scaled(x);
  const Expr f = sub(scale.m, 1.0f), d = add(scale.m, 1.0f), d_rest = sub(scale.m, sub(d, 1.0f));
  const Expr s = div(f, d);
  const Pair back = two_product(s, d);
  const Expr s_rest = div(sub(sub(sub(f, back.high), back.low), mul(s, d_rest)), d);
  const Pair square = two_product(s, s), cube = two_product(square.high, s), third = two_product(cube.high, kTwoThirds);
  const Expr third_rest =
      add(third.low, add(mul(kTwoThirds, add(cube.low, mul(square.low, s))), mul(kTwoThirdsRest, cube.high)));
  const Expr tail = cube.high * square.high * polynomial(square.high, kSeries);
  const Pair sum = fast_two_sum(mul(2.0f, s), third.high);
  const Expr low = add(add(sum.low, third_rest), add(tail, mul(mul(2.0f, s_rest), add(1.0f, square.high))));
  const Pair product = two_product(sum.high, kLog2e);
  const Expr product_rest = add(product.low, add(mul(sum.high, kLog2eRest), mul(low, kLog2e)));
  const Pair result = two_sum(Halide::cast<float>(scale.e), product.high);
  return {result.high, add(result.low, product_rest)};
}

Exponential exp2_of(const Expr& t, const Expr& rest) {
  const Expr sum = add(t, kRounding), r = add(sub(t, sub(sum, kRounding)), rest);
  const Expr k = Halide::reinterpret<int32_t>(sum) - Halide::reinterpret<int32_t>(Expr(kRounding));
  return {k, exp2_near_zero(r)};
}

}  // namespace parts

// 10^x = 2^(x log2 10), the exponent in two floats
Value exp10(const Value& value) {
  const Expr x = detail::f32_operand(value, "exp10").expr();
  constexpr float kLog2Of10 = 3.32192802f, kLog2Of10Rest = 7.05952261e-8f;
  const Expr held = held_within(x, -46.0f, 39.0f);
  const Pair product = two_product(held, kLog2Of10);
  const auto [k, power] = exp2_of(product.high, add(product.low, mul(held, kLog2Of10Rest)));
  return nan_from(x, times_power(power, k));
}

// x^y = Π x^(2^n) over the bits n < 6 that are set in y: of a larger y all but 1, 0 and -1 overflow. Without signs,
// whose products may not.
static Value integer_power(const Value& base, const Value& exponent) {
  using Halide::select;
  const Expr x = base.expr(), y = exponent.expr();
  const Halide::Type type = x.type(), word = type.with_code(Halide::Type::UInt);
  const Expr one = Halide::Internal::make_one(word), zero = Halide::Internal::make_zero(type);
  Expr square = Halide::cast(word, x), rest = Halide::cast(word, y), power = one;
  for (int n = 0; n < 6; n++) {
    power = power * select((rest & one) != 0, square, one);
    square = square * square;
    rest = rest >> one;
  }
  power = select(x == 0 && y > 0, zero, Halide::cast(type, power));
  if (type.is_uint()) return power;
  const Expr of_unit = select(x == -1 && (y & 1) != 0, Halide::cast(type, -1), x == 1 || x == -1,
                              Halide::Internal::make_one(type), zero);
  return select(y < 0, of_unit, power);
}

// x^y = 2^(y log2 |x|) with the sign of x where y is an odd integer; the exponent in two floats, since 2^t multiplies
// t's error by up to 128. Special cases as in C (annex F.10.4.4).
Value pow(const Value& base, const Value& exponent) {
  auto [a, b] = detail::matched(base, exponent);
  if (a.type() == Halide::Float(64) && b.type() == Halide::Float(64)) return Halide::pow(a, b);
  if (a.type().is_int_or_uint() && a.type() == b.type()) return integer_power(a, b);
  const Expr x = detail::f32_operand(a, "pow").expr(), y = detail::f32_operand(b, "pow").expr();
  const Expr size = magnitude(x), y_size = magnitude(y);
  const Pair logarithm = log2_in_two(size);
  const Expr held = held_within(y, -0x1p32f, 0x1p32f);  // further out |x| = 1 alone gives a number
  const Pair product = two_product(held, logarithm.high);
  const Expr is_in_range = less(magnitude(product.high), 200.0f);
  const Expr t = held_within(product.high, -200.0f, 200.0f);
  const Expr rest = Halide::select(is_in_range, add(product.low, mul(held, logarithm.low)), 0.0f);
  const auto [k, power] = exp2_of(t, rest);
  Expr result = times_power(power, k);

  // Integers by their bits: beyond 2^24 all floats are even.
  const Expr y_bits = magnitude_bits(y), fraction_bits = 150 - Halide::cast<int32_t>(y_bits >> 23);
  const Expr last = Halide::max(Halide::min(fraction_bits, 24), 0);
  const Expr whole = (y_bits & word(0x7fffffu)) | word(0x800000u);
  const Expr unit = word(1) << Halide::cast<uint32_t>(last);
  const Expr is_integer = (whole & (unit - word(1))) == word(0) && fraction_bits < 24;
  const Expr is_odd = is_integer && fraction_bits >= 0 && (whole & unit) != word(0);
  const Expr grows = less(1.0f, size) == !is_negative(y);  // |x|^y where one of them is infinite, or x is 0
  const Expr is_extreme = is_infinite(x) || is_infinite(y) || is_zero(x);
  result = choose(is_extreme, real(Halide::select(grows, word(kInfinity), word(0))), result);
  result = real(bits(result) | (Halide::select(is_odd, bits(x), word(0)) & word(kSign)));
  const Expr has_none = is_negative(x) && !is_integer && !is_infinite(x) && !is_infinite(y) && !is_zero(x);
  result = choose_bits(is_nan_bits(x) || is_nan_bits(y) || has_none, kNan, result);
  const Expr one = word(0x3f800000u);
  const Expr is_one = bits(x) == one || y_bits == word(0) || (bits(size) == one && is_infinite(y));
  return choose(is_one, 1.0f, result);
}

}  // namespace ashlar::dsl

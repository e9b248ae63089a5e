// exp, log and erf of f32 for the CPU, where Halide's own lose NaN and infinities, and digits without FMA, or take
// twice as long. GPUs have good ones.
#include "dsl/exponential.h"

#include "dsl/descriptor.h"

namespace ashlar::dsl {
namespace {

bool is_cuda_f32(const Expr& x) {
  return Descriptor::target.has_feature(Halide::Target::CUDA) && x.type() == Halide::Float(32);
}

// A function of CUDA's libdevice, which Halide links into every kernel, or an intrinsic of LLVM.
Expr device_function(const char* name, const std::vector<Expr>& arguments) {
  return Halide::Internal::Call::make(Halide::Float(32), name, arguments, Halide::Internal::Call::PureExtern);
}

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

// Subnormals as zero: CUDA's instructions flush them, but libdevice's bit operations would half see them.
Expr flushed(const Expr& x) {
  const Expr bits = Halide::reinterpret<uint32_t>(x);
  const Expr is_subnormal = (bits & Expr(uint32_t{0x7f800000})) == Expr(uint32_t{0});
  return Halide::reinterpret<float>(Halide::select(is_subnormal, bits & Expr(uint32_t{0x80000000}), bits));
}

bool has_own_exp(const Expr& x) { return Descriptor::target.has_gpu_feature() || x.type() != Halide::Float(32); }

// c₀ + x (c₁ + x (c₂ + …)), fused where the target can
template <size_t N>
Expr polynomial(const Expr& x, const float (&coefficients)[N]) {
  Expr sum = coefficients[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = coefficients[i] + x * sum;
  return sum;
}

// `x` within [low, high]; NaN stays NaN
Expr held_within(const Expr& x, float low, float high) {
  return Halide::strict_float(Halide::select(x > high, high, Halide::select(x < low, low, x)));
}

// NaN where x is, else `value`. The arithmetic behind `value` may take NaN for impossible: only its bits are looked at.
Expr nan_from(const Expr& x, const Expr& value) {
  return Halide::reinterpret<float>(
      Halide::select(detail::is_nan_bits(x), Halide::reinterpret<uint32_t>(x), Halide::reinterpret<uint32_t>(value)));
}

// 2^n for n in [-127, 127]
Expr power_of_two(const Expr& n) { return Halide::reinterpret<float>((n + 127) << 23); }

// e^x = 2^k e^r with k = round(x / ln 2) and r = x - k ln 2 in two steps (Cody & Waite 1980); |r| <= ln 2 / 2, where
// 1 + r + r² q(r) with q fitted for the least relative error (Lawson's algorithm) leaves 3e-9.
struct Exponential {
  Expr k;      ///< as an integer
  Expr power;  ///< e^r
};
Exponential exponential(const Expr& x) {
  using Halide::Internal::Call;
  constexpr float kSeries[] = {1.0f, 1.0f, 0.49999994f, 0.1666652f, 0.041668396f, 0.0083687855f, 0.0013814455f};
  // Added to a small number, 1.5 · 2^23 leaves it rounded in the last bits of the sum.
  constexpr float kRounding = 12582912.0f;
  const Expr sum = detail::strictly(Call::strict_add, x * 1.44269504f, kRounding);
  const Expr k = detail::strictly(Call::strict_sub, sum, kRounding);
  const Expr r = detail::strictly(Call::strict_sub, x, k * 0.693359375f) + k * 2.12194440e-4f;
  return {Halide::reinterpret<int32_t>(sum) - Halide::reinterpret<int32_t>(Expr(kRounding)), polynomial(r, kSeries)};
}

}  // namespace

bool is_gpu_f32(const Expr& x) { return Descriptor::target.has_gpu_feature() && x.type() == Halide::Float(32); }

Expr native_exp2(const Expr& x) {
  const bool is_cuda = Descriptor::target.has_feature(Halide::Target::CUDA);
  return Halide::Internal::Call::make(Halide::Float(32), is_cuda ? "llvm.nvvm.ex2.approx.ftz.f" : "native_exp2", {x},
                                      Halide::Internal::Call::PureExtern);
}

// 2^k in two factors, so that subnormal results and overflow to infinity come by themselves.
Value exp(const Value& value) {
  using Halide::Internal::Call;
  const Expr x = detail::float_operand(value, "exp").expr();
  if (is_cuda_f32(x)) return exp_on_cuda(x);
  if (has_own_exp(x)) return Halide::exp(x);
  const auto [n, power] = exponential(held_within(x, -110.0f, 90.0f));
  const Expr half = n >> 1;
  const Expr scaled = detail::strictly(Call::strict_mul, power, power_of_two(half));
  return nan_from(x, detail::strictly(Call::strict_mul, scaled, power_of_two(n - half)));
}

// On the CPU without what only other arguments need; 0 where the result is no normal number, below ln 2^-126.
Value exp_below_zero(const Value& value) {
  using Halide::Internal::Call;
  const Expr x = detail::float_operand(value, "exp_below_zero").expr();
  if (is_gpu_f32(x)) return native_exp2(x * 1.44269504f);
  if (has_own_exp(x)) return exp(value);
  const auto [n, power] = exponential(x);
  const Expr result = detail::strictly(Call::strict_mul, power, power_of_two(n));
  // The comparison alone is strict: strict_float() would take the fused multiply-adds from all above it.
  const Expr is_tiny = Call::make(Halide::Bool(), Call::strict_lt, {x, Expr(-87.33654f)}, Call::PureIntrinsic);
  return Halide::select(is_tiny, 0.0f, result);
}

// ln x = e ln 2 + ln m with x = m 2^e, m in [√½, √2);  ln m = 2 artanh(s), s = (m - 1) / (m + 1), a series in s² <=
// 0.03
Value log(const Value& value) {
  const Expr x = detail::float_operand(value, "log").expr();
  if (is_cuda_f32(x)) return device_function("__nv_logf", {flushed(x)});
  if (has_own_exp(x)) return Halide::log(x);
  const Expr is_subnormal = x < 1.17549435e-38f;
  const Expr normal = Halide::select(is_subnormal, x * 16777216.0f, x);
  const Expr bits = Halide::reinterpret<int32_t>(normal);
  constexpr int32_t kRootHalf = 0x3f3504f3;
  const Expr exponent = (bits - kRootHalf) >> 23;
  const Expr m = Halide::reinterpret<float>(bits - (exponent << 23));
  const Expr e = Halide::cast<float>(exponent - Halide::select(is_subnormal, 24, 0));
  const Expr s = (m - 1.0f) / (m + 1.0f), z = s * s;
  const Expr series = z * (1.0f / 3 + z * (1.0f / 5 + z * (1.0f / 7 + z * (1.0f / 9))));
  const Expr result = e * 0.693359375f + (2.0f * s + (2.0f * s * series - e * 2.12194440e-4f));
  // Through the bits: 0 gives -Inf, negative values NaN, +Inf and NaN themselves.
  const auto bits_of = [](const Expr& f) { return Halide::reinterpret<uint32_t>(f); };
  const Expr from_zero = Expr(uint32_t{0xff800000}), from_negative = Expr(uint32_t{0x7fc00000});
  const Expr raw = bits_of(x);
  const Expr is_nan = (raw & Expr(uint32_t{0x7fffffff})) > Expr(uint32_t{0x7f800000});
  const Expr is_zero = (raw & Expr(uint32_t{0x7fffffff})) == Expr(uint32_t{0});
  const Expr is_negative = raw >= Expr(uint32_t{0x80000000});
  const Expr chosen = Halide::select(is_nan || raw == Expr(uint32_t{0x7f800000}), raw, is_zero, from_zero, is_negative,
                                     from_negative, bits_of(result));
  return Halide::strict_float(Halide::reinterpret<float>(chosen));
}

// erf(x): the argument is held within ±4, where f32 has reached ±1, because polynomials overflow far out. On the CPU
// x P(x²) / Q(x²), fitted in (0, 3.92] for the least relative error (Lawson's algorithm: 2e-8).
Value erf(const Value& value) {
  const Expr x = detail::float_operand(value, "erf").expr();
  if (has_own_exp(x)) {
    return nan_unless(!is_nan(x), Halide::strict_float(Halide::erf(held_within(x, -4.0f, 4.0f))));
  }
  constexpr float kAbove[] = {1.1283791f, 0.19040771f, 0.052748892f, 0.0037656713f, 0.00028488406f, 2.0500795e-06f};
  constexpr float kBelow[] = {1.0f, 0.50207716f, 0.1141096f, 0.014969325f, 0.0011625488f, 3.8091704e-05f};
  const Expr held = held_within(x, -3.92f, 3.92f), s = held * held;
  return nan_from(x, held * polynomial(s, kAbove) / polynomial(s, kBelow));
}

}  // namespace ashlar::dsl

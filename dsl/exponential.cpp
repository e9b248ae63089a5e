// exp and log of f32 for the CPU, where Halide's own lose NaN and infinities, and digits without FMA. GPUs have good
// ones.
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

// 1 + x/1 (1 + x/2 (1 + … (1 + x/n)))
Expr taylor_exp(const Expr& x, int n) {
  Expr sum = 1.0f;
  for (int i = n; i >= 1; i--) sum = 1.0f + x * (1.0f / static_cast<float>(i)) * sum;
  return sum;
}

// 2^n for n in [-127, 127]
Expr power_of_two(const Expr& n) { return Halide::reinterpret<float>((n + 127) << 23); }

}  // namespace

// e^x = 2^k e^r with k = round(x / ln 2) and r = x - k ln 2 in two steps (Cody & Waite 1980); |r| <= ln 2 / 2, where
// eight terms of the series leave 1e-8. 2^k in two factors, so that subnormal results and overflow to infinity come by
// themselves.
Value exp(const Value& value) {
  const Expr x = value.expr();
  if (is_cuda_f32(x)) return exp_on_cuda(x);
  if (has_own_exp(x)) return Halide::exp(x);
  const Expr held = Halide::strict_float(Halide::select(x > 90.0f, 90.0f, Halide::select(x < -110.0f, -110.0f, x)));
  const Expr k = Halide::round(held * 1.44269504f);
  const Expr r = Halide::strict_float(held - k * 0.693359375f) + k * 2.12194440e-4f;
  const Expr n = Halide::cast<int32_t>(k), half = n >> 1;
  return Halide::strict_float(taylor_exp(r, 7) * power_of_two(half) * power_of_two(n - half));
}

// ln x = e ln 2 + ln m with x = m 2^e, m in [√½, √2);  ln m = 2 artanh(s), s = (m - 1) / (m + 1), a series in s² <=
// 0.03
Value log(const Value& value) {
  const Expr x = value.expr();
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

}  // namespace ashlar::dsl

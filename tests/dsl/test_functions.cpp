// Device functions against the C library's in double, on every kind of f32: on this machine's vectors, on those of any
// x86-64, and through OpenCL. What docs/device-functions.md says of their errors is what stands here.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "dsl/descriptor.h"
#include "dsl/functions.h"
#include "dsl/functions/parts.h"

namespace ashlar::dsl {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr double kEverything = 3.5e38;

struct Unary {
  const char* name;
  Value (*function)(const Value&);
  double (*reference)(double);
  double ulps;                                    // of f32, at the result
  double low = -kEverything, high = kEverything;  // where that holds
};
struct Binary {
  const char* name;
  Value (*function)(const Value&, const Value&);
  double (*reference)(double, double);
  double ulps;
  bool of_operands = false;  // in units of the larger operand's last place where that is larger
};

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return x > 40 ? x : std::log1p(std::exp(x)); }
double floor_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && std::signbit(rest) != std::signbit(b) ? rest + b : rest;
}
// By their series from 20 on.
double digamma_of(double x) {
  double shifts = 0;
  if (x < 0) return std::isinf(x) ? NAN : digamma_of(1 - x) - M_PI / std::tan(M_PI * (x - std::nearbyint(x)));
  if (x == 0) return std::copysign(HUGE_VAL, -x);
  for (; x < 20; x += 1) shifts += 1 / x;
  const double s = 1 / x / x;
  return std::log(x) - 0.5 / x - s * (1. / 12 - s * (1. / 120 - s * (1. / 252 - s / 240))) - shifts;
}
double trigamma_of(double x) {
  double shifts = 0;
  if (x < 0)
    return std::isinf(x) ? NAN : std::pow(M_PI / std::sin(M_PI * (x - std::nearbyint(x))), 2) - trigamma_of(1 - x);
  for (; x < 20; x += 1) shifts += 1 / x / x;
  const double s = 1 / x / x;
  return 1 / x + s / 2 + s / x * (1. / 6 - s * (1. / 30 - s * (1. / 42 - s / 30))) + shifts;
}

// Of whole and half numbers exact.
double sinpi_of(double x) {
  const double whole = std::nearbyint(x), rest = x - whole, value = std::sin(M_PI * rest);
  if (rest == 0) return std::copysign(0, x);
  return std::fmod(whole, 2) != 0 ? -value : value;
}
double cospi_of(double x) {
  const double whole = std::nearbyint(x), rest = std::abs(x - whole);
  if (rest == 0.5) return 0;
  const double value = rest <= 0.25 ? std::cos(M_PI * rest) : std::sin(M_PI * (0.5 - rest));
  return std::fmod(whole, 2) != 0 ? -value : value;
}
double sinc_of(double x) { return x == 0 ? 1 : sinpi_of(x) / (M_PI * x); }
// The zero of erf(x) - y, or of the complements, which are exact for a float y, by Newton's method from a first guess.
double erfinv_of(double y) {
  const double size = std::abs(y), rest = 1 - size;
  if (!(size < 1)) return size == 1 ? std::copysign(HUGE_VAL, y) : NAN;
  if (y == 0) return y;
  double x = size < 0.9 ? size * 0.886 : std::sqrt(-std::log(rest));
  for (int i = 0; i < 60; i++) {
    const double off = size < 0.5 ? std::erf(x) - size : rest - std::erfc(x);
    // Halley's step, which doesn't run away where erf is flat.
    const double step = off * std::sqrt(M_PI) / 2 * std::exp(x * x);
    x -= step / (1 + x * step);
  }
  return std::copysign(x, y);
}
// Σ (x/2)^(2k + n) / (k! (k + n)!), far out by the series in 1/x, times e^-|x|
double bessel_scaled(int n, double x) {
  const double size = std::abs(x), sign = n == 1 && x < 0 ? -1 : 1;
  if (std::isinf(x)) return sign * 0.0;
  if (size > 40) {
    double sum = 1, term = 1;
    for (int k = 1; k < 20; k++) sum += term *= -(4.0 * n * n - (2 * k - 1) * (2 * k - 1)) / (8 * k * size);
    return sign * sum / std::sqrt(2 * M_PI * size);
  }
  double term = n == 1 ? size / 2 : 1, sum = term;
  for (int k = 1; k < 120; k++) sum += term *= size * size / 4 / k / (k + n);
  return (std::signbit(x) && n == 1 ? -sum : sum) * std::exp(-size);
}
double bessel_of(int n, double x) {
  return std::isinf(x) ? (n == 1 ? x : std::abs(x)) : bessel_scaled(n, x) * std::exp(std::abs(x));
}
double tgamma_of(double x) {
  if (x == 0) return std::copysign(HUGE_VAL, x);
  return x < 0 && x == std::nearbyint(x) ? NAN : std::tgamma(x);
}
double entr_of(double x) { return x > 0 ? -x * std::log(x) : x == 0 ? 0 : std::isnan(x) ? x : -HUGE_VAL; }
double logaddexp_of(double a, double b) {
  if (a == b) return a + M_LN2;
  return (std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b)) + std::log1p(std::exp(-std::abs(a - b)));
}
double logaddexp2_of(double a, double b) {
  if (a == b) return a + 1;
  return (std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b)) + std::log1p(std::exp2(-std::abs(a - b))) / M_LN2;
}
double xlogy_of(double x, double y) { return x == 0 && !std::isnan(y) ? 0 : x * std::log(y); }
double xlog1py_of(double x, double y) { return x == 0 && !std::isnan(y) ? 0 : x * std::log1p(y); }
double fmax_of(double a, double b) {
  if (a == 0 && b == 0) return std::signbit(a) && std::signbit(b) ? -0.0 : 0.0;
  return std::isnan(a) ? b : std::isnan(b) ? a : std::max(a, b);
}
double fmin_of(double a, double b) { return -fmax_of(-a, -b); }

const Unary kUnary[] = {
    {"exp", exp, std::exp, 2},
    {"exp2", exp2, std::exp2, 2},
    {"exp10", exp10, [](double x) { return std::pow(10.0, x); }, 3},
    {"expm1", expm1, std::expm1, 3},
    {"log", log, std::log, 3},
    {"log2", log2, std::log2, 3},
    {"log10", log10, std::log10, 3},
    {"log1p", log1p, std::log1p, 3},
    {"sqrt", sqrt, std::sqrt, 2},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 3},
    {"cbrt", cbrt, std::cbrt, 2},
    {"sin", sin, std::sin, 3},
    {"cos", cos, std::cos, 3},
    {"tan", tan, std::tan, 4},
    {"sinpi", sinpi, sinpi_of, 3},
    {"cospi", cospi, cospi_of, 3},
    {"sinc", sinc, sinc_of, 4},
    {"asin", asin, std::asin, 3},
    {"acos", acos, std::acos, 3},
    {"atan", atan, std::atan, 3},
    {"sinh", sinh, std::sinh, 3},
    {"cosh", cosh, std::cosh, 3},
    {"tanh", tanh, std::tanh, 4},
    {"asinh", asinh, std::asinh, 4},
    {"acosh", acosh, std::acosh, 4},
    {"atanh", atanh, std::atanh, 4},
    {"erf", erf, std::erf, 4},
    {"erfc", erfc, std::erfc, 4, -kEverything, 8},
    {"erfinv", erfinv, erfinv_of, 4},
    {"tgamma", tgamma, tgamma_of, 5},
    {"lgamma", lgamma, std::lgamma, 4, 0},
    {"digamma", digamma, digamma_of, 4, 4},
    {"trigamma", trigamma, trigamma_of, 4, 0},
    {"i0", i0, [](double x) { return bessel_of(0, x); }, 5},
    {"i0e", i0e, [](double x) { return bessel_scaled(0, x); }, 5},
    {"i1", i1, [](double x) { return bessel_of(1, x); }, 5},
    {"i1e", i1e, [](double x) { return bessel_scaled(1, x); }, 5},
    {"entr", entr, entr_of, 4},
    {"logit", logit, [](double x) { return std::log(x / (1 - x)); }, 4},
    {"floor", floor, std::floor, 0},
    {"ceil", ceil, std::ceil, 0},
    {"round", round, std::nearbyint, 0},
    {"round_away", round_away, std::round, 0},
    {"trunc", trunc, std::trunc, 0},
    {"frac", frac, [](double x) { return x - std::trunc(x); }, 0},
    {"logb", logb, std::logb, 0},
    {"sigmoid", sigmoid, sigmoid_of, 4, -87},
    {"softplus", softplus, softplus_of, 4},
    {"logsigmoid", logsigmoid, [](double x) { return std::min(x, 0.) - std::log1p(std::exp(-std::abs(x))); }, 4},
    {"softsign", softsign, [](double x) { return x / (1 + std::abs(x)); }, 3, -1e38, 1e38},
    {"silu", silu, [](double x) { return x * sigmoid_of(x); }, 4, -87},
    {"mish", mish, [](double x) { return x * std::tanh(softplus_of(x)); }, 4, -87},
    {"elu", [](const Value& x) { return elu(x); }, [](double x) { return x > 0 ? x : std::expm1(x); }, 3},
    {"celu", [](const Value& x) { return celu(x); }, [](double x) { return x > 0 ? x : std::expm1(x); }, 3},
    {"selu", selu, [](double x) { return kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x)); }, 4, -1e38, 1e38},
    {"hardsigmoid", hardsigmoid, [](double x) { return std::clamp(x + 3, 0., 6.) / 6; }, 4, -2.9, kEverything},
    {"hardswish", hardswish, [](double x) { return x * std::clamp(x + 3, 0., 6.) / 6; }, 4, -2.9, 5e37},
};

// What the page says nothing of: relatively, digamma is off by more around its zero.
const Unary kBesides[] = {
    {"digamma + 6", [](const Value& x) { return digamma(x) + 6.0f; }, [](double x) { return digamma_of(x) + 6; }, 4,
     0.3, 8},
};

const Binary kBinary[] = {
    {"pow", pow, std::pow, 3},
    {"atan2", atan2, std::atan2, 4},
    {"hypot", hypot, std::hypot, 3},
    {"fmod", fmod, std::fmod, 0},
    {"remainder", remainder, floor_mod, 0.51},
    {"ieee_remainder", ieee_remainder, std::remainder, 0},
    {"logaddexp", logaddexp, logaddexp_of, 5, true},
    {"logaddexp2", logaddexp2, logaddexp2_of, 5, true},
    {"xlogy", xlogy, xlogy_of, 4},
    {"xlog1py", xlog1py, xlog1py_of, 4},
    {"fmax", fmax, fmax_of, 0},
    {"fmin", fmin, fmin_of, 0},
    {"fdim", fdim, std::fdim, 0.5},
    {"copysign", copysign, std::copysign, 0},
    {"nextafter", nextafter, [](double x, double y) -> double { return std::nextafter(float(x), float(y)); }, 0},
};

// |got - exact| in units of the last place of an f32 of the exact result's size.
double error_in_ulps(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(got) ? 0 : HUGE_VAL;
  if (std::isnan(got)) return HUGE_VAL;
  if (std::isinf(nearest) || std::isinf(got)) {
    if (got == nearest) return 0;
    // Beside the largest number a result may have been rounded up.
    const double reached = std::isinf(got) ? std::copysign(0x1p128, got) : got;
    if (std::signbit(got) != std::signbit(nearest) || std::isinf(exact)) return HUGE_VAL;
    return std::abs(reached - exact) / 0x1p104;
  }
  if (exact == 0 && got == 0) return std::signbit(got) == std::signbit(exact) ? 0 : HUGE_VAL;
  const int exponent = std::max(exact == 0 ? -126 : std::ilogb(exact), -126);
  return std::abs(got - exact) / std::ldexp(1.0, exponent - 23);
}

// NaN, infinities, zeros, ends of ranges, and floats evenly over all bit patterns and over a few intervals.
std::vector<float> samples() {
  std::vector<float> values{kNaN, kInf, -kInf, 0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -0.5f, 2.0f, 1e-45f, -1e-45f};
  std::mt19937 random(1);
  for (uint32_t i = 0; i < (1u << 19); i++)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(i << 13 | (random() & 0x1fffu))));
  for (const float reach : {1.0f, 4.0f, 20.0f, 110.0f, 1000.0f}) {
    for (int i = 0; i < 60000; i++) {
      values.push_back(reach * (static_cast<float>(random()) * 0x1p-31f - 1));
      values.push_back(std::nextafter(values.back(), 0.0f));
    }
  }
  for (int i = -200; i <= 200; i++) {
    const float half = static_cast<float>(i) / 2;
    values.push_back(half);
    float below = half, above = half;
    for (int step = 0; step < 4; step++) {
      values.push_back(below = std::nextafter(below, -kInf));
      values.push_back(above = std::nextafter(above, kInf));
    }
  }
  for (int i = 1; i < 4000; i++) values.push_back(static_cast<float>(i * 1.5707963267948966));
  // Around 1 and 2, where logarithms cancel.
  for (int i = -3000; i < 3000; i++) values.push_back(1 + static_cast<float>(i) * 0x1p-23f);
  values.resize(values.size() / 64 * 64);
  return values;
}

struct Machine {
  const char* name;
  const char* target;
};

class OnMachine : public ::testing::TestWithParam<Machine> {
 protected:
  void SetUp() override {
    target_ = Halide::Target(GetParam().target);
    if (target_.has_feature(Halide::Target::AVX2) && !Halide::get_host_target().has_feature(Halide::Target::AVX2)) {
      GTEST_SKIP() << "no AVX2 here";
    }
    Descriptor::target = target_;
  }

  // f over the two inputs, compiled in vectors, or in GPU threads.
  template <class F>
  std::vector<float> run(F f, const std::vector<float>& a, const std::vector<float>& b) {
    const int count = static_cast<int>(a.size());
    Halide::Buffer<float> x(const_cast<float*>(a.data()), count), y(const_cast<float*>(b.data()), count), out(count);
    Halide::ImageParam in_x(Halide::Float(32), 1), in_y(Halide::Float(32), 1);
    Halide::Var i("i"), block("block"), thread("thread");
    Halide::Func result;
    result(i) = Halide::cast<float>(f(Value(Expr(in_x(i))), Value(Expr(in_y(i)))).expr());
    if (target_.has_gpu_feature()) {
      result.gpu_tile(i, block, thread, 64, Halide::TailStrategy::RoundUp);
    } else {
      result.vectorize(i, target_.natural_vector_size<float>(), Halide::TailStrategy::RoundUp);
    }
    x.set_host_dirty();
    y.set_host_dirty();
    in_x.set(x);
    in_y.set(y);
    result.realize(out, target_);
    out.copy_to_host();
    return {out.begin(), out.end()};
  }

  Halide::Target target_;
};

TEST_P(OnMachine, UnaryFunctionsKeepTheirBounds) {
  const std::vector<float> x = samples();
  std::vector<Unary> functions(std::begin(kUnary), std::end(kUnary));
  functions.insert(functions.end(), std::begin(kBesides), std::end(kBesides));
  for (const Unary& f : functions) {
    const std::vector<float> y = run([&](Value v, Value) { return f.function(v); }, x, x);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); i++) {
      if (std::isfinite(x[i]) && (x[i] < f.low || x[i] > f.high)) continue;
      const double error = error_in_ulps(y[i], f.reference(x[i]));
      if (error > worst) worst = error, at = i;
    }
    std::printf("%-8s %-12s %6.2f ULP at %.9g: %.9g for %.9g\n", GetParam().name, f.name, worst, x[at], y[at],
                f.reference(x[at]));
    EXPECT_LE(worst, f.ulps) << f.name << "(" << x[at] << ") = " << y[at];
  }
}

TEST_P(OnMachine, BinaryFunctionsKeepTheirBounds) {
  std::vector<float> a = samples(), b = a;
  std::mt19937 random(2);
  std::shuffle(b.begin(), b.end(), random);
  for (const float first :
       {kNaN, kInf, -kInf, 0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -2.0f, 3.0f, -3.0f, 2.5f, 1e30f, 1e-45f}) {
    for (const float second :
         {kNaN, kInf, -kInf, 0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -2.0f, 3.0f, -3.0f, 2.5f, 1e30f, 1e-45f}) {
      a.push_back(first);
      b.push_back(second);
    }
  }
  // Bases and exponents whose powers are numbers.
  for (int i = 0; i < 300000; i++) {
    const double base = std::exp((static_cast<double>(random()) * 0x1p-31 - 1) * 8);
    const double result = (static_cast<double>(random()) * 0x1p-31 - 1) * 87;
    a.push_back(static_cast<float>(i % 7 == 0 ? -base : base));
    b.push_back(i % 7 == 0 ? std::round(static_cast<float>(result / std::log(base)))
                           : static_cast<float>(result / std::log(base)));
  }
  a.resize(a.size() / 64 * 64);
  b.resize(a.size());
  for (const Binary& f : kBinary) {
    const std::vector<float> y = run([&](Value v, Value w) { return f.function(v, w); }, a, b);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < a.size(); i++) {
      const double exact = f.reference(a[i], b[i]), operand = std::fmax(std::abs(a[i]), std::abs(b[i]));
      double error = error_in_ulps(y[i], exact);
      if (f.of_operands && std::isfinite(error) && std::isfinite(operand) && operand > std::abs(exact)) {
        error = std::abs(y[i] - exact) / std::ldexp(1.0, std::max(std::ilogb(operand), -126) - 23);
      }
      if (error > worst) worst = error, at = i;
    }
    std::printf("%-8s %-12s %6.2f ULP at %.9g, %.9g: %.9g for %.9g\n", GetParam().name, f.name, worst, a[at], b[at],
                y[at], f.reference(a[at], b[at]));
    EXPECT_LE(worst, f.ulps) << f.name << "(" << a[at] << ", " << b[at] << ") = " << y[at];
  }
}

// Those that are exact and have other operands or results than a float, each against C's.
TEST_P(OnMachine, PartsOfFloatsAreExact) {
  const std::vector<float> x = samples();
  const auto same = [](float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  };
  const auto check = [&](const char* name, auto function, auto reference) {
    const std::vector<float> y = run([&](Value v, Value w) { return function(v, w); }, x, x);
    size_t wrong = 0;
    for (size_t i = 0; i < x.size(); i++) {
      if (same(reference(x[i]), y[i]) || wrong++ > 3) continue;
      ADD_FAILURE() << name << "(" << x[i] << ") = " << y[i] << ", not " << reference(x[i]);
    }
  };
  const auto fraction = [](float v) {
    int exponent = 0;
    return std::frexp(v, &exponent);
  };
  const auto exponent = [](float v) -> float {
    int e = 0;
    std::frexp(v, &e);
    return std::isfinite(v) ? static_cast<float>(e) : 0;
  };
  const auto part = [](float v) {
    float whole = 0;
    return std::modf(v, &whole);
  };
  check(
      "frexp", [](Value v, Value) { return frexp(v).fraction; }, fraction);
  check(
      "frexp's exponent", [](Value v, Value) { return frexp(v).exponent; }, exponent);
  check(
      "modf", [](Value v, Value) { return modf(v).fraction; }, part);
  check(
      "modf's whole", [](Value v, Value) { return modf(v).whole; }, [](float v) { return std::trunc(v); });
  check(
      "ilogb", [](Value v, Value) { return ilogb(v); },
      [](float v) -> float {
        if (v == 0 || std::isnan(v)) return static_cast<float>(std::numeric_limits<int32_t>::min());
        return std::isinf(v) ? 0x1p31f : static_cast<float>(std::ilogb(v));
      });
  check(
      "signbit", [](Value v, Value) { return signbit(v); }, [](float v) -> float { return std::signbit(v); });
  check(
      "is_finite", [](Value v, Value) { return is_finite(v); }, [](float v) -> float { return std::isfinite(v); });
  check(
      "is_infinite", [](Value v, Value) { return is_infinite(v); }, [](float v) -> float { return std::isinf(v); });
  check(
      "is_normal", [](Value v, Value) { return is_normal(v); }, [](float v) -> float { return std::isnormal(v); });
  check(
      "heaviside", [](Value v, Value) { return heaviside(v, 0.5); },
      [](float v) { return v == 0  ? 0.5f
                           : v > 0 ? 1.0f
                                   : 0.0f; });
  check(
      "threshold", [](Value v, Value) { return threshold(v, 0.5, -2.0); },
      [](float v) -> float { return v <= 0.5f ? -2.0f : v; });
}

TEST_P(OnMachine, ScalingAndFusedMultiplyAddRoundOnce) {
  const std::vector<float> x = samples();
  std::mt19937 random(3);
  std::vector<float> y(x.size());
  for (float& n : y) n = static_cast<float>(static_cast<int>(random() % 700) - 350);
  const std::vector<float> scaled = run([](Value v, Value n) { return ldexp(v, cast<i32>(n)); }, x, y);
  // Operands of like size, whose product the third number all but cancels, and any.
  std::vector<float> a = x, b = x;
  for (size_t i = 0; i < a.size(); i++) {
    if (i % 2 == 0)
      a[i] = 1 + static_cast<float>(random()) * 0x1p-32f, b[i] = 1 + static_cast<float>(random()) * 0x1p-32f;
    if (i % 2 == 1) b[i] = x[random() % x.size()];
  }
  const auto third = [](float p, float q) { return -p * q; };
  const std::vector<float> cancelled = run([](Value p, Value q) { return fma(p, q, -1.0); }, a, b);
  const std::vector<float> rest =
      run([](Value p, Value q) { return fma(p, q, Value(parts::mul(-p.expr(), q.expr()))); }, a, b);
  int wrong = 0;
  const auto expect = [&](const char* name, float got, float exact, float p, float q) {
    const bool is_same = std::isnan(exact) ? std::isnan(got) : got == exact;
    if (!is_same && wrong++ < 5) ADD_FAILURE() << name << " of " << p << ", " << q << ": " << got << ", not " << exact;
  };
  for (size_t i = 0; i < x.size(); i++) {
    expect("ldexp", scaled[i], std::ldexp(x[i], static_cast<int>(y[i])), x[i], y[i]);
    expect("fma", cancelled[i], std::fma(a[i], b[i], -1.0f), a[i], b[i]);
    expect("fma, rest", rest[i], std::fma(a[i], b[i], third(a[i], b[i])), a[i], b[i]);
  }
}

// The third column of "| `tan(x)` | … | 4 | … |"; a bar within a column is written \\|.
std::string documented_bound(const std::string& function) {
  std::ifstream page(std::filesystem::path(__FILE__).parent_path() / "../../docs/device-functions.md");
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `" + function + "(")) continue;
    size_t begin = 0;
    for (int bars = 0; bars < 3; begin++) bars += line[begin] == '|' && (begin == 0 || line[begin - 1] != '\\');
    return line.substr(begin, line.find('|', begin) - begin);
  }
  return {};
}

TEST(DeviceFunctions, TheirPageStatesTheBoundsTestedHere) {
  const auto check = [](const auto& f) {
    const std::string bound = documented_bound(f.name);
    EXPECT_TRUE(!bound.empty() && std::stod(bound) == f.ulps) << f.name << ": " << bound << ", tested " << f.ulps;
  };
  for (const Unary& f : kUnary) check(f);
  for (const Binary& f : kBinary) check(f);
}

INSTANTIATE_TEST_SUITE_P(Functions, OnMachine,
                         ::testing::Values(Machine{"avx2", "x86-64-linux-avx-avx2-f16c-fma-sse41"},
                                           Machine{"baseline", "x86-64-linux"},
                                           Machine{"opencl", "x86-64-linux-opencl"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ashlar::dsl

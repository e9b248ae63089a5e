// The gradients' kernels of element-wise mathematics and of activations, called as such: dx = dy f'(x) at sizes beyond
// every vector and tile, with NaN and infinities for either.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

struct Slope {
  const char* kernel;
  Tensor (*call)(const Tensor& dy, const Tensor& x);
  double (*exact)(double);  // f'(x)
  double ulps;              // of f32, at |dy| times `scale`
  Values domain = {};
  double (*scale)(double) = nullptr;  // what the slope's error is relative to; null: the slope
};

constexpr double (*kBesideOne)(double) = [](double) { return 1.0; };

double sigmoid_of(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double bell(double x) { return 2 / std::sqrt(std::numbers::pi) * std::exp(-x * x); }

// ψ(x), of x > 0, and ψ'(x): by their series from 20 on
double digamma_of(double x) {
  double shifts = 0;
  for (; x < 20; x += 1) shifts += 1 / x;
  const double s = 1 / x / x;
  return std::log(x) - 0.5 / x - s * (1. / 12 - s * (1. / 120 - s * (1. / 252 - s / 240))) - shifts;
}
double trigamma_of(double x) {
  double shifts = 0;
  for (; x < 20; x += 1) shifts += 1 / x / x;
  const double s = 1 / x / x;
  return 1 / x + s / 2 + s / x * (1. / 6 - s * (1. / 30 - s * (1. / 42 - s / 30))) + shifts;
}

// x s(z), z = c₁ x + c₃ x³; its slope is 0 and 1 far from 0.
double gelu_tanh_slope(double x) {
  constexpr double c1 = 1.5957691216057308, c3 = 0.0713548162726009;
  if (std::abs(x) > 1e6) return x > 0 ? 1 : 0;
  const double s = sigmoid_of(x * (c1 + c3 * x * x));
  return s + x * s * (1 - s) * (c1 + 3 * c3 * x * x);
}
double mish_slope(double x) {
  if (std::abs(x) > 1e6) return x > 0 ? 1 : 0;
  const double t = std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))));
  return t + x * (1 - t * t) * sigmoid_of(x);
}

// clang-format off
const Slope kSlopes[] = {
    {"exp2_grad", exp2_grad, [](double x) { return std::numbers::ln2 * std::exp2(x); }, 6},
    {"expm1_grad", expm1_grad, [](double x) { return std::exp(x); }, 9},
    {"log2_grad", log2_grad, [](double x) { return std::numbers::log2e / x; }, 4, {.low = 0.1, .high = 4}},
    {"log10_grad", log10_grad, [](double x) { return std::numbers::log10e / x; }, 4, {.low = 0.1, .high = 4}},
    {"log1p_grad", log1p_grad, [](double x) { return 1 / (1 + x); }, 4, {.low = -0.9, .high = 4}},
    {"reciprocal_grad", reciprocal_grad, [](double x) { return -1 / x / x; }, 6, {.low = 0.3, .high = 4}},
    {"square_grad", square_grad, [](double x) { return 2 * x; }, 1},
    {"abs_grad", abs_grad, [](double x) { return static_cast<double>((x > 0) - (x < 0)); }, 1},
    {"sin_grad", sin_grad, [](double x) { return std::cos(x); }, 6, {.low = -10, .high = 10}},
    {"cos_grad", cos_grad, [](double x) { return -std::sin(x); }, 6, {.low = -10, .high = 10}},
    {"tan_grad", tan_grad, [](double x) { return 1 + std::tan(x) * std::tan(x); }, 12, {.low = -1.2, .high = 1.2}},
    {"asin_grad", asin_grad, [](double x) { return 1 / std::sqrt((1 - x) * (1 + x)); }, 6, {.low = -0.9, .high = 0.9}},
    {"acos_grad", acos_grad, [](double x) { return -1 / std::sqrt((1 - x) * (1 + x)); }, 6, {.low = -0.9, .high = 0.9}},
    {"atan_grad", atan_grad, [](double x) { return 1 / (1 + x * x); }, 4},
    {"sinh_grad", sinh_grad, [](double x) { return std::cosh(x); }, 8},
    {"cosh_grad", cosh_grad, [](double x) { return std::sinh(x); }, 8},
    {"asinh_grad", asinh_grad, [](double x) { return 1 / std::sqrt(1 + x * x); }, 6},
    {"acosh_grad", acosh_grad, [](double x) { return 1 / std::sqrt(x - 1) * (1 / std::sqrt(x + 1)); }, 10,
     {.low = 1.2, .high = 5}},
    {"atanh_grad", atanh_grad, [](double x) { return 1 / ((1 - x) * (1 + x)); }, 6, {.low = -0.9, .high = 0.9}},
    {"erf_grad", erf_grad, [](double x) { return bell(x); }, 16},
    {"erfc_grad", erfc_grad, [](double x) { return -bell(x); }, 16},
    {"lgamma_grad", lgamma_grad, digamma_of, 12, {.low = 0.2, .high = 7},
     [](double x) { return std::abs(digamma_of(x)) + 2; }},
    {"digamma_grad", digamma_grad, trigamma_of, 12, {.low = 0.2, .high = 7}},
    {"clamp_grad", [](const Tensor& dy, const Tensor& x) { return clamp_grad(dy, x, -0.5, 0.75); },
     [](double x) { return x < -0.5 || x > 0.75 ? 0.0 : 1.0; }, 1},

    {"gelu_tanh_grad", gelu_tanh_grad, gelu_tanh_slope, 24, {.low = -4, .high = 4}, kBesideOne},
    {"mish_grad", mish_grad, mish_slope, 24, {.low = -4, .high = 4}, kBesideOne},
    // (At -3/2 the slope is 0, or what rounding makes of it.)
    {"hardswish_grad", hardswish_grad, [](double x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5; }, 4,
     {.low = -1.25, .high = 4}, kBesideOne},
    {"hardsigmoid_grad", hardsigmoid_grad, [](double x) { return x > -3 && x < 3 ? 1. / 6 : 0; }, 1,
     {.low = -4, .high = 4}},
    {"relu6_grad", relu6_grad, [](double x) { return x <= 0 || x >= 6 ? 0.0 : 1.0; }, 1, {.low = -4, .high = 8}},
    {"selu_grad", selu_grad,
     [](double x) { return 1.0507009873554805 * (x > 0 ? 1 : 1.6732632423543772 * std::exp(x)); }, 10},
    {"logsigmoid_grad", logsigmoid_grad, [](double x) { return sigmoid_of(-x); }, 12, {.low = -4, .high = 4}},
    {"softsign_grad", softsign_grad, [](double x) { return 1 / ((1 + std::abs(x)) * (1 + std::abs(x))); }, 6},
    {"tanhshrink_grad", tanhshrink_grad, [](double x) { return std::tanh(x) * std::tanh(x); }, 12},
    {"leaky_relu_grad", [](const Tensor& dy, const Tensor& x) { return leaky_relu_grad(dy, x, 0.25); },
     [](double x) { return x <= 0 ? 0.25 : 1; }, 1},
    {"elu_grad", [](const Tensor& dy, const Tensor& x) { return elu_grad(dy, x, 1.5); },
     [](double x) { return x <= 0 ? 1.5 * std::exp(x) : 1; }, 10},
    {"celu_grad", [](const Tensor& dy, const Tensor& x) { return celu_grad(dy, x, 0.5); },
     [](double x) { return x <= 0 ? std::exp(x / 0.5) : 1; }, 10},
    {"hardtanh_grad", [](const Tensor& dy, const Tensor& x) { return hardtanh_grad(dy, x, -0.5, 0.75); },
     [](double x) { return x <= -0.5 || x >= 0.75 ? 0.0 : 1.0; }, 1},
    {"hardshrink_grad", [](const Tensor& dy, const Tensor& x) { return hardshrink_grad(dy, x, 0.5); },
     [](double x) { return std::abs(x) <= 0.5 ? 0.0 : 1.0; }, 1},
    {"softshrink_grad", [](const Tensor& dy, const Tensor& x) { return softshrink_grad(dy, x, 0.5); },
     [](double x) { return std::abs(x) <= 0.5 ? 0.0 : 1.0; }, 1},
    {"softplus_grad", [](const Tensor& dy, const Tensor& x) { return softplus_grad(dy, x, 2, 3); },
     [](double x) { return 2 * x > 3 ? 1 : sigmoid_of(2 * x); }, 12},
};
// clang-format on

// The gamma functions' series above are for numbers above 0; and what the product in atanh's slope is at infinity, -∞
// or NaN, is the compiler's choice.
constexpr std::string_view kWithinTheirDomain[] = {"lgamma_grad", "digamma_grad", "atanh_grad"};
// Flat somewhere, where NaN · 0 is NaN or 0, by the device's compiler.
constexpr std::string_view kFlat[] = {"clamp_grad",    "hardsigmoid_grad", "relu6_grad",
                                      "hardtanh_grad", "hardshrink_grad",  "softshrink_grad"};

Case example(const Slope& f, std::string name, Input dy, Input x) {
  return {.kernel = f.kernel,
          .name = std::move(name),
          .inputs = {std::move(dy), std::move(x)},
          .call = [&f](Tensors x) { return std::vector{f.call(x[0], x[1])}; },
          .reference =
              [&f](HostTensors x) {
                Expected dx = broadcasted(x[0], x[1], [&](double dy, double v) { return dy * f.exact(v); });
                if (f.scale) {
                  dx.magnitudes =
                      broadcasted(x[0], x[1], [&](double dy, double v) { return std::abs(dy) * f.scale(v); }).values;
                }
                return std::vector{dx};
              },
          .tolerance = ulps(f.ulps),
          .vary = any_rank};
}

}  // namespace

void add_slope_cases() {
  for (const Slope& f : kSlopes) {
    for (const int64_t n : {1027, 100003}) {
      add_case(example(f, std::to_string(n), {{n}}, {{n}, f.domain}));
    }
    add_case(example(f, "263003_offset", {{263003}}, {{263003}, f.domain, Layout::offset}));
    add_case(example(f, "5x33_stepped", {{5, 33}}, {{5, 33}, f.domain, Layout::stepped}));
    const Values special{Pattern::special, f.domain.low, f.domain.high};
    if (std::ranges::count(kWithinTheirDomain, f.kernel) == 0) {
      add_case(example(f, "special", {{1031}}, {{1031}, special}));
    }
    if (std::ranges::count(kFlat, f.kernel) == 0) {
      add_case(example(f, "special_dy", {{1031}, {Pattern::special}}, {{1031}, f.domain}));
    }
  }
}

}  // namespace ashlar::conformance

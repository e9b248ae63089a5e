// y[i] = f(x[i]) for the functions that have f32 instances mostly: calls in f16 and bf16 go through those, and have to
// give what an instance of their own would, f32 arithmetic rounded once.
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

using Scale = double (*)(double);

// The accuracy contract of one function, called with some options.
struct Function {
  const char* kernel;
  Tensor (*call)(const Tensor&);
  Var (*record)(const Var&);
  double (*exact)(double);
  double ulps;               // of f32, at `scale`
  Values domain = {};        // where its gradient is smooth enough for differences
  Scale scale = nullptr;     // what an error is relative to; null: the result
  const char* options = "";  // what tells two calls of a kernel apart
};

// Dtypes beside f16 and bf16 in which it gives its argument's.
struct WholeFunction {
  const char* kernel;
  Tensor (*call)(const Tensor&);
  Var (*record)(const Var&);  // null: 0 wherever there is a derivative
  double (*exact)(double);
  bool has_f64 = true;
};

struct Predicate {
  const char* kernel;
  Tensor (*call)(const Tensor&);
  bool (*holds)(double);
};

constexpr Scale kArgument = [](double x) { return std::abs(x); };
constexpr Scale kOne = [](double) { return 1.0; };

double sigmoid_of(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

// ψ(x) by the series from 20 on, and by reflection below 0
double digamma_of(double x) {
  if (x == 0) return std::copysign(HUGE_VAL, -x);
  if (x < 0) {
    const double fraction = x - std::nearbyint(x);
    return fraction == 0 || std::isinf(x) ? NAN : digamma_of(1 - x) - M_PI / std::tan(M_PI * fraction);
  }
  double shifts = 0;
  for (; x < 20; x += 1) shifts += 1 / x;
  const double s = 1 / x / x;
  return std::log(x) - 0.5 / x - s * (1. / 12 - s * (1. / 120 - s * (1. / 252 - s / 240))) - shifts;
}

// clang-format off
const Function kFunctions[] = {
    {"exp2", exp2, ad::exp2, [](double x) { return std::exp2(x); }, 4},
    {"expm1", expm1, ad::expm1, [](double x) { return std::expm1(x); }, 4},
    {"log2", log2, ad::log2, [](double x) { return std::log2(x); }, 4, {.low = 0.1, .high = 4}},
    {"log10", log10, ad::log10, [](double x) { return std::log10(x); }, 4, {.low = 0.1, .high = 4}},
    {"log1p", log1p, ad::log1p, [](double x) { return std::log1p(x); }, 4, {.low = -0.9, .high = 4}},
    {"reciprocal", reciprocal, ad::reciprocal, [](double x) { return 1 / x; }, 3, {.low = 0.3, .high = 4}},
    {"sin", sin, ad::sin, [](double x) { return std::sin(x); }, 4, {.low = -10, .high = 10}},
    {"cos", cos, ad::cos, [](double x) { return std::cos(x); }, 4, {.low = -10, .high = 10}},
    {"tan", tan, ad::tan, [](double x) { return std::tan(x); }, 4, {.low = -1.2, .high = 1.2}},
    {"asin", asin, ad::asin, [](double x) { return std::asin(x); }, 4, {.low = -0.9, .high = 0.9}},
    {"acos", acos, ad::acos, [](double x) { return std::acos(x); }, 4, {.low = -0.9, .high = 0.9}},
    {"atan", atan, ad::atan, [](double x) { return std::atan(x); }, 4},
    {"sinh", sinh, ad::sinh, [](double x) { return std::sinh(x); }, 4},
    {"cosh", cosh, ad::cosh, [](double x) { return std::cosh(x); }, 4},
    {"asinh", asinh, ad::asinh, [](double x) { return std::asinh(x); }, 4},
    {"acosh", acosh, ad::acosh, [](double x) { return std::acosh(x); }, 4, {.low = 1.2, .high = 5}},
    {"atanh", atanh, ad::atanh, [](double x) { return std::atanh(x); }, 4, {.low = -0.9, .high = 0.9}},
    {"erf", erf, ad::erf, [](double x) { return std::erf(x); }, 4},
    // Elements of 16 bits are few, and those beyond 8 among them subnormal.
    {"erfc", erfc, ad::erfc, [](double x) { return std::erfc(x); }, 5},
    {"lgamma", lgamma, ad::lgamma, [](double x) { return std::lgamma(x); }, 5, {.low = 0.2, .high = 7},
     [](double x) { return std::abs(std::lgamma(x)) + (x < 0 ? 4 : 0); }},
    {"digamma", digamma, ad::digamma, digamma_of, 9, {.low = 0.2, .high = 7},
     [](double x) { return std::abs(digamma_of(x)) + 2 + (x < 0 ? std::log1p(-x) : 0); }},

    {"gelu_tanh", gelu_tanh, ad::gelu_tanh,
     [](double x) { return x * sigmoid_of(x * (1.5957691216057308 + 0.0713548162726009 * x * x)); }, 8,
     {.low = -4, .high = 4}, kArgument},
    {"mish", mish, ad::mish, [](double x) { return x * std::tanh(softplus_of(x)); }, 4, {.low = -4, .high = 4}, kArgument},
    {"hardswish", hardswish, ad::hardswish, [](double x) { return x * clamped(x + 3, 0, 6) / 6; }, 4,
     {.low = -4, .high = 4}, kArgument},
    {"hardsigmoid", hardsigmoid, ad::hardsigmoid, [](double x) { return clamped(x + 3, 0, 6) / 6; }, 4,
     {.low = -4, .high = 4}, kOne},
    {"relu6", relu6, ad::relu6, [](double x) { return x <= 0 ? 0 : clamped(x, 0, 6); }, 0, {.low = -4, .high = 8}},
    {"selu", selu, ad::selu,
     [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); }, 4},
    {"logsigmoid", logsigmoid, ad::logsigmoid, [](double x) { return -softplus_of(-x); }, 4, {.low = -4, .high = 4}},
    {"softsign", softsign, ad::softsign, [](double x) { return x / (1 + std::abs(x)); }, 3},
    {"tanhshrink", tanhshrink, ad::tanhshrink, [](double x) { return x - std::tanh(x); }, 4, {}, kArgument},

    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }, [](const Var& x) { return ad::leaky_relu(x); },
     [](double x) { return x > 0 ? x : 0.01f * x; }, 1},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.25); }, [](const Var& x) { return ad::leaky_relu(x, 0.25); },
     [](double x) { return x > 0 ? x : 0.25 * x; }, 1, {}, nullptr, "by_a_quarter_"},
    {"elu", [](const Tensor& x) { return elu(x); }, [](const Var& x) { return ad::elu(x); },
     [](double x) { return x > 0 ? x : std::expm1(x); }, 4},
    {"elu", [](const Tensor& x) { return elu(x, 1.5); }, [](const Var& x) { return ad::elu(x, 1.5); },
     [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); }, 4, {}, nullptr, "alpha_1.5_"},
    {"celu", [](const Tensor& x) { return celu(x); }, [](const Var& x) { return ad::celu(x); },
     [](double x) { return x > 0 ? x : std::expm1(x); }, 4},
    {"celu", [](const Tensor& x) { return celu(x, 0.5); }, [](const Var& x) { return ad::celu(x, 0.5); },
     [](double x) { return x > 0 ? x : 0.5 * std::expm1(x / 0.5); }, 4, {}, nullptr, "alpha_0.5_"},
    {"hardtanh", [](const Tensor& x) { return hardtanh(x); }, [](const Var& x) { return ad::hardtanh(x); },
     [](double x) { return clamped(x, -1, 1); }, 0},
    {"hardtanh", [](const Tensor& x) { return hardtanh(x, -0.5, 0.75); }, [](const Var& x) { return ad::hardtanh(x, -0.5, 0.75); },
     [](double x) { return clamped(x, -0.5, 0.75); }, 0, {}, nullptr, "-0.5_to_0.75_"},
    {"hardshrink", [](const Tensor& x) { return hardshrink(x); }, [](const Var& x) { return ad::hardshrink(x); },
     [](double x) { return std::abs(x) <= 0.5 ? 0 : x; }, 0},
    {"hardshrink", [](const Tensor& x) { return hardshrink(x, 1.25); }, [](const Var& x) { return ad::hardshrink(x, 1.25); },
     [](double x) { return std::abs(x) <= 1.25 ? 0 : x; }, 0, {}, nullptr, "by_1.25_"},
    {"softshrink", [](const Tensor& x) { return softshrink(x); }, [](const Var& x) { return ad::softshrink(x); },
     [](double x) { return std::abs(x) <= 0.5 ? 0 : x - std::copysign(0.5, x); }, 1},
    {"softshrink", [](const Tensor& x) { return softshrink(x, 1.25); }, [](const Var& x) { return ad::softshrink(x, 1.25); },
     [](double x) { return std::abs(x) <= 1.25 ? 0 : x - std::copysign(1.25, x); }, 1, {}, nullptr, "by_1.25_"},
    {"clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.75); }, [](const Var& x) { return ad::clamp(x, -0.5, 0.75); },
     [](double x) { return clamped(x, -0.5, 0.75); }, 0},
    {"softplus", [](const Tensor& x) { return softplus(x); }, [](const Var& x) { return ad::softplus(x); },
     [](double x) { return x > 20 ? x : softplus_of(x); }, 4, {.low = -4, .high = 4}},
    {"softplus", [](const Tensor& x) { return softplus(x, 2, 3); }, [](const Var& x) { return ad::softplus(x, 2, 3); },
     [](double x) { return 2 * x > 3 ? x : softplus_of(2 * x) / 2; }, 4, {.low = -4, .high = 1.4}, nullptr, "beta_2_to_3_"},
};

const WholeFunction kWholeFunctions[] = {
    {"abs", abs, ad::abs, [](double x) { return std::abs(x); }},
    {"square", square, ad::square, [](double x) { return x * x; }, false},
    {"floor", floor, nullptr, [](double x) { return std::floor(x); }},
    {"ceil", ceil, nullptr, [](double x) { return std::ceil(x); }},
    {"round", round, nullptr, [](double x) { return std::nearbyint(x); }},
    {"trunc", trunc, nullptr, [](double x) { return std::trunc(x); }},
    {"sign", sign, nullptr, [](double x) { return static_cast<double>((x > 0) - (x < 0)); }},
    {"neg", neg, ad::neg, [](double x) { return -x; }},
};

const Predicate kPredicates[] = {
    {"isnan", isnan, [](double x) { return std::isnan(x); }},
    {"isinf", isinf, [](double x) { return std::isinf(x); }},
    {"isfinite", isfinite, [](double x) { return std::isfinite(x); }},
    {"logical_not", logical_not, [](double x) { return x == 0; }},
};
// clang-format on

Case example(const Function& f, const std::string& name, Input input) {
  return {.kernel = f.kernel,
          .name = f.options + name,
          .inputs = {std::move(input)},
          .call = [&f](Tensors x) { return std::vector{f.call(x[0])}; },
          .reference =
              [&f](HostTensors x) {
                Expected y = pointwise(x[0], f.exact);
                if (f.scale) y.magnitudes = pointwise(x[0], f.scale).values;
                return std::vector{y};
              },
          .tolerance = ulps(f.ulps),
          .vary = any_rank};
}

void add_function(const Function& f) {
  const auto differentiable = [&f](const std::string& name, Input input) {
    Case item = example(f, name, std::move(input));
    item.differentiable = [&f](Vars x) { return f.record(x[0]); };
    add_case(std::move(item));
  };
  for (const int64_t n : {0, 1, 17, 257, 1027, 263003}) add_case(example(f, std::to_string(n), {{n}, f.domain}));
  differentiable("37", {{37}, f.domain});
  differentiable("3x5x7_transposed", {{3, 5, 7}, f.domain, Layout::transposed});
  add_case(example(f, "263003_offset", {{263003}, f.domain, Layout::offset}));
  add_case(example(f, "1100003", {{1100003}, f.domain}));  // so many that a thread has pairs of vectors
  add_case(example(f, "5x33_stepped", {{5, 33}, f.domain, Layout::stepped}));
  add_case(example(f, "301x437_stepped", {{301, 437}, f.domain, Layout::stepped}));
  for (const auto& [name, pattern] : {std::pair{"special", Pattern::special},
                                      {"denormal", Pattern::denormal},
                                      {"huge", Pattern::huge},
                                      {"tiny", Pattern::tiny},
                                      {"wide", Pattern::wide}}) {
    add_case(example(f, name, {{515}, {pattern, -2, 2}}));
  }
  add_case(example(f, "-110_to_110", {{2050}, {.low = -110, .high = 110}}));
}

void add_whole_function(const WholeFunction& f) {
  const auto add = [&f](const char* name, Input input, std::vector<DType> dtypes, bool is_differentiated) {
    Case item{.kernel = f.kernel,
              .name = name,
              .inputs = {std::move(input)},
              .dtypes = std::move(dtypes),
              .call = [&f](Tensors x) { return std::vector{f.call(x[0])}; },
              .reference = [&f](HostTensors x) { return std::vector{pointwise(x[0], f.exact)}; },
              .tolerance = ulps(0.5),
              .vary = any_rank};
    if (is_differentiated && f.record) item.differentiable = [&f](Vars x) { return f.record(x[0]); };
    item.gradient_dtypes = item.dtypes;
    add_case(std::move(item));
  };
  const std::vector<DType> floats{DType::f32, DType::f16, DType::bf16};
  add("no_elements", {.shape = {0}}, floats, false);
  add("of_1100003", {{1100003}, {.low = -3, .high = 3}}, floats, false);
  add("of_37", {{37}, {.low = -3, .high = 3}}, floats, true);
  add("of_4x33_stepped", {{4, 33}, {.low = -3, .high = 3}, Layout::stepped}, floats, false);
  add("of_301x437_stepped", {{301, 437}, {.low = -3, .high = 3}, Layout::stepped}, floats, false);
  add("of_1027_offset", {{1027}, {.low = -3, .high = 3}, Layout::offset}, floats, false);
  add("halves", {{129}, {Pattern::integers, -9, 9}}, floats, false);
  for (const auto& [name, pattern] :
       {std::pair{"specials", Pattern::special}, {"denormals", Pattern::denormal}, {"all_sizes", Pattern::wide}}) {
    add(name, {{1031}, {pattern}}, floats, false);
  }
  const std::vector<DType> integers{DType::i64, DType::i32};
  for (const int64_t n : {1, 33, 1025}) {
    add(("integers_" + std::to_string(n)).c_str(), {{n}, {Pattern::integers, -99, 99}}, integers, false);
  }
  add("integers_5x33_stepped", {{5, 33}, {Pattern::integers, -99, 99}, Layout::stepped}, integers, false);
  add("integers_301x437_stepped", {{301, 437}, {Pattern::integers, -99, 99}, Layout::stepped}, {DType::i64}, false);
  if (f.exact(1) > 0) add("bytes", {{65}, {Pattern::integers, 0, 11}}, {DType::u8}, false);
  if (!f.has_f64) return;
  for (const int64_t n : {1, 33, 1025}) {
    add(("f64_" + std::to_string(n)).c_str(), {{n}, {.low = -3, .high = 3}}, {DType::f64}, true);
  }
  add("f64_specials", {{515}, {Pattern::special}}, {DType::f64}, false);
  add("f64_301x437_stepped", {{301, 437}, {.low = -3, .high = 3}, Layout::stepped}, {DType::f64}, false);
}

void add_predicate(const Predicate& predicate) {
  const auto add = [&predicate](const char* name, Input input, std::vector<DType> dtypes) {
    add_case({.kernel = predicate.kernel,
              .name = name,
              .inputs = {std::move(input)},
              .dtypes = std::move(dtypes),
              .call = [&predicate](Tensors x) { return std::vector{predicate.call(x[0])}; },
              .reference =
                  [&predicate](HostTensors x) {
                    Expected y = pointwise(x[0], [&](double v) { return static_cast<double>(predicate.holds(v)); });
                    y.dtype = DType::boolean;
                    return std::vector{y};
                  },
              .vary = any_rank});
  };
  const std::vector<DType> floats{DType::f32, DType::f16, DType::bf16, DType::f64};
  for (const int64_t n : {0, 1, 63, 1025}) add(std::to_string(n).c_str(), {{n}, {Pattern::special}}, floats);
  add("5x33_stepped", {{5, 33}, {Pattern::special}, Layout::stepped}, floats);
  add("1100003", {{1100003}, {Pattern::wide}}, floats);
  add("wide", {{515}, {Pattern::wide}}, floats);
  for (const int64_t n : {1, 33, 1027}) {
    add(("integers_" + std::to_string(n)).c_str(), {{n}, {Pattern::integers, -9, 9}}, {DType::i64, DType::i32});
    add(("truth_" + std::to_string(n)).c_str(), {{n}, {Pattern::integers, 0, 1}}, {DType::boolean});
  }
  add("truth_66003", {{66003}, {Pattern::integers, 0, 1}}, {DType::boolean});
  add("truth_66003_offset", {{66003}, {Pattern::integers, 0, 1}, Layout::offset}, {DType::boolean});
}

void add_bitwise_not_cases() {
  const auto add = [](const char* name, Input input, double flip, std::vector<DType> dtypes) {
    // ~x = -1 - x, of a bool 1 - x, of a byte 255 - x
    add_case({.kernel = "bitwise_not",
              .name = name,
              .inputs = {std::move(input)},
              .dtypes = std::move(dtypes),
              .call = [](Tensors x) { return std::vector{bitwise_not(x[0])}; },
              .reference =
                  [flip](HostTensors x) { return std::vector{pointwise(x[0], [&](double v) { return flip - v; })}; },
              .vary = any_rank});
  };
  add("integers", {{1027}, {Pattern::integers, -999, 999}}, -1, {DType::i64, DType::i32});
  add("integers_301x437_stepped", {{301, 437}, {Pattern::integers, -999, 999}, Layout::stepped}, -1, {DType::i64});
  add("bytes", {{1027}, {Pattern::integers, 0, 255}}, 255, {DType::u8});
  add("truth", {{1027}, {Pattern::integers, 0, 1}}, 1, {DType::boolean});
  add("truth_66003", {{66003}, {Pattern::integers, 0, 1}}, 1, {DType::boolean});
  add("truth_66003_offset", {{66003}, {Pattern::integers, 0, 1}, Layout::offset}, 1, {DType::boolean});
  add("truth_301x437_stepped", {{301, 437}, {Pattern::integers, 0, 1}, Layout::stepped}, 1, {DType::boolean});
}

}  // namespace

void add_maths_cases() {
  add_bitwise_not_cases();
  for (const Function& f : kFunctions) add_function(f);
  for (const WholeFunction& f : kWholeFunctions) add_whole_function(f);
  for (const Predicate& predicate : kPredicates) add_predicate(predicate);
}

}  // namespace ashlar::conformance

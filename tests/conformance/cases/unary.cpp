// y[i] = f(x[i])
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

double sigmoid_of(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

// The accuracy contract of one function.
struct Function {
  const char* name;
  Tensor (*call)(const Tensor&);
  Var (*record)(const Var&);
  double (*exact)(double);
  double ulps;              // of f32, at `scale`
  double (*scale)(double);  // what an error is relative to; null: the result
  Values domain;            // where the function is defined and its gradient is smooth enough for differences
  double furthest;          // arguments up to ±furthest are tried too (0: the domain says all)
};

// |x|: the result of gelu and silu is x times something in [0, 1] whose error is relative to 1.
constexpr double (*kArgument)(double) = [](double x) { return std::abs(x); };

const Function kFunctions[] = {
    {"neg", neg, ad::neg, [](double x) { return -x; }, 0, nullptr, {}, 1e30},
    {"exp", exp, ad::exp, [](double x) { return std::exp(x); }, 8, nullptr, {}, 90},
    {"log",
     log,
     ad::log,
     [](double x) { return std::log(x); },
     8,
     [](double x) { return std::abs(std::log(x)) + 1; },
     {.low = 0.1, .high = 4},
     0},
    {"sqrt", sqrt, ad::sqrt, [](double x) { return std::sqrt(x); }, 2, nullptr, {.low = 0.1, .high = 4}, 0},
    {"rsqrt", rsqrt, ad::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 4, nullptr, {.low = 0.1, .high = 4}, 0},
    {"tanh", tanh, ad::tanh, [](double x) { return std::tanh(x); }, 8, nullptr, {}, 200},
    {"sigmoid", sigmoid, ad::sigmoid, sigmoid_of, 8, nullptr, {.low = -4, .high = 4}, 200},
    {"relu", relu, ad::relu, [](double x) { return x > 0 || std::isnan(x) ? x : 0; }, 0, nullptr, {}, 1e30},
    {"gelu",
     gelu,
     ad::gelu,
     [](double x) { return x / 2 * (1 + std::erf(x * std::sqrt(0.5))); },
     8,
     kArgument,
     {.low = -4, .high = 4},
     200},
    {"silu", silu, ad::silu, [](double x) { return x * sigmoid_of(x); }, 8, kArgument, {.low = -4, .high = 4}, 200},
};

Case example(const Function& f, std::string name, Input input) {
  Case item{.kernel = f.name,
            .name = std::move(name),
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
  return item;
}

Case with_gradient(const Function& f, Case item) {
  item.differentiable = [&f](Vars x) { return f.record(x[0]); };
  return item;
}

void add_function(const Function& f) {
  // Sizes around every vector width, tile and block.
  for (const int64_t n :
       {0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4099, 263003}) {
    add_case(example(f, std::to_string(n), {.shape = {n}, .values = f.domain}));
  }
  add_case(with_gradient(f, example(f, "rank0", {.shape = {}, .values = f.domain})));
  add_case(with_gradient(f, example(f, "37", {.shape = {37}, .values = f.domain})));
  add_case(with_gradient(f, example(f, "3x5x7_transposed", {{3, 5, 7}, f.domain, Layout::transposed})));
  add_case(example(f, "5x33_offset", {{5, 33}, f.domain, Layout::offset}));
  add_case(example(f, "263003_offset", {{263003}, f.domain, Layout::offset}));
  add_case(example(f, "1100003", {{1100003}, f.domain}));  // so many that a thread has pairs of vectors
  add_case(example(f, "5x33_stepped", {{5, 33}, f.domain, Layout::stepped}));
  add_case(example(f, "301x437_stepped", {{301, 437}, f.domain, Layout::stepped}));
  add_case(example(f, "5x33_flipped", {{5, 33}, f.domain, Layout::flipped}));
  add_case(example(f, "5x33_broadcast_first", {{5, 33}, f.domain, Layout::broadcast_first}));
  add_case(example(f, "5x33_broadcast_last", {{5, 33}, f.domain, Layout::broadcast_last}));
  add_case(example(f, "rank8", {.shape = {2, 1, 3, 1, 2, 1, 2, 3}, .values = f.domain}));
  for (const auto& [name, pattern] : {std::pair{"special", Pattern::special},
                                      {"denormal", Pattern::denormal},
                                      {"huge", Pattern::huge},
                                      {"tiny", Pattern::tiny}}) {
    add_case(example(f, name, {{515}, {pattern, f.domain.low, f.domain.high}}));
  }
  if (f.furthest > 0) {
    add_case(example(f, "far", {{2050}, {.low = -f.furthest, .high = f.furthest}}));
    if (f.furthest <= 200) {
      // Where exp over- and underflows in f32, and where gradients built from it would give NaN.
      Case high = with_gradient(f, example(f, "around_88", {{40}, {.low = 86, .high = f.furthest == 90 ? 88.5 : 106}}));
      if (f.furthest == 90) high.gradient_dtypes = {DType::f32, DType::bf16};  // e^86 is infinite in f16
      add_case(high);
      add_case(with_gradient(f, example(f, "around_minus_88", {{40}, {.low = -106, .high = -86}})));
    }
  } else {
    add_case(example(f, "undefined_below_zero", {{129}, {.low = -3, .high = 3}}));
  }
  Case bench = example(f, "16M", {.shape = {int64_t{1} << 24}, .values = f.domain});
  bench.benchmark = true;
  add_case(bench);
}

Case affine_example(std::string name, Input input, double scale = 0.75, double shift = -1.5) {
  return {.kernel = "affine",
          .name = std::move(name),
          .inputs = {std::move(input)},
          .call = [scale, shift](Tensors x) { return std::vector{affine(x[0], scale, shift)}; },
          .reference =
              [scale, shift](HostTensors x) {
                Expected y = pointwise(x[0], [&](double v) { return scale * v + shift; });
                y.magnitudes = pointwise(x[0], [&](double v) { return std::abs(scale * v) + std::abs(shift); }).values;
                return std::vector{y};
              },
          .tolerance = ulps(2),
          .differentiable = [scale, shift](Vars x) { return ad::affine(x[0], scale, shift); },
          .vary =
              [](const Case& like, Random& random) {
                const double any_scale = static_cast<double>(random.between(-12, 12)) / 4;
                const double any_shift = static_cast<double>(random.between(-12, 12)) / 4;
                Case item = affine_example("by " + std::to_string(any_scale) + " and " + std::to_string(any_shift),
                                           like.inputs[0], any_scale, any_shift);
                if (!like.differentiable) item.differentiable = {};
                return any_rank(item, random);
              }};
}

}  // namespace

void add_unary_cases() {
  for (const Function& f : kFunctions) add_function(f);
  for (const int64_t n : {0, 1, 17, 257, 1025}) add_case(affine_example(std::to_string(n), {.shape = {n}}));
  add_case(affine_example("5x33_stepped", {.shape = {5, 33}, .layout = Layout::stepped}));
  add_case(affine_example("301x437_stepped", {.shape = {301, 437}, .layout = Layout::stepped}));
  add_case(affine_example("5x33_offset", {.shape = {5, 33}, .layout = Layout::offset}));
  add_case(affine_example("263003", {.shape = {263003}}));
  add_case(affine_example("1100003", {.shape = {1100003}}));
  add_case(affine_example("263003_offset", {.shape = {263003}, .layout = Layout::offset}));
  Case special = affine_example("special", {{515}, {Pattern::special}});
  special.differentiable = {};
  add_case(special);
}

}  // namespace ashlar::conformance

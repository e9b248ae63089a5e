// y = f(a, b) and f(a, b, c) with broadcasting, for the functions that have f32 instances mostly.
#include <algorithm>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "operators/gated.h"
#include "tests/conformance/cases/broadcasts.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

const std::vector<DType> kFloats{DType::f32, DType::f16, DType::bf16};
const Values kPositive{.low = 0.5, .high = 3}, kSigned{.low = -3, .high = 3};
constexpr double kSum = 6;  // of two of them

struct Binary {
  const char* kernel;
  Tensor (*call)(const Tensor&, const Tensor&);
  Var (*record)(const Var&, const Var&);
  double (*exact)(double, double);
  double ulps;
  Values a, b;                                    // where its gradients are smooth enough for differences
  double (*magnitude)(double, double) = nullptr;  // what an error of `ulps` is relative to; null: the result
  double rounded = 0;                             // Case::gradient_rounds_up_to
};

struct Bits {
  const char* kernel;
  Tensor (*call)(const Tensor&, const Tensor&);
  int64_t (*exact)(int64_t, int64_t);
  int64_t highest;  // of b
  bool has_bool;
};

struct Ternary {
  const char* kernel;
  Tensor (*call)(const Tensor&, const Tensor&, const Tensor&);
  Var (*record)(const Var&, const Var&, const Var&);
  double (*exact)(double, double, double);
  double (*magnitude)(double, double, double);  // what an error of `ulps` is relative to
  double ulps;
};

double floor_mod(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && std::signbit(rest) != std::signbit(b) ? rest + b : rest;
}
int64_t floor_mod(int64_t a, int64_t b) { return b == 0 ? 0 : ((a % b) + b) % b; }

int64_t power_of(int64_t a, int64_t b) { return b == 0 ? 1 : a * power_of(a, b - 1); }

/// Infinite where f32's overflows.
double sum_of(double a, double b) { return std::abs(a + b) > 0x1.fffffep127 ? std::copysign(HUGE_VAL, a + b) : a + b; }
double size_of_sum(double a, double b) { return std::abs(sum_of(a, b)); }

// clang-format off
const Binary kBinary[] = {
    {"pow", pow, ad::pow, [](double a, double b) { return std::pow(a, b); }, 4, kPositive, kSigned},
    {"fmod", fmod, ad::fmod, [](double a, double b) { return std::fmod(a, b); }, 0.5, {.low = 2.7, .high = 2.9}, {.low = 1.1, .high = 1.3}},
    {"remainder", remainder, ad::remainder, floor_mod, 1, {.low = -2.9, .high = -2.7}, {.low = 1.1, .high = 1.3}},
    {"atan2", atan2, ad::atan2, [](double a, double b) { return std::atan2(a, b); }, 5, kPositive, kPositive},
    {"hypot", hypot, ad::hypot, [](double a, double b) { return std::hypot(a, b); }, 4, kPositive, kSigned},
    {"add_relu", add_relu, ad::add_relu, [](double a, double b) { return max_of(a + b, 0); }, 1, kPositive, {.low = 0.1, .high = 3}, nullptr, kSum},
    {"add_gelu", add_gelu, ad::add_gelu, [](double a, double b) { return sum_of(a, b) / 2 * std::erfc(-sum_of(a, b) / std::sqrt(2.0)); }, 4, kPositive, kSigned, size_of_sum, kSum},
    {"add_silu", add_silu, ad::add_silu, [](double a, double b) { return sum_of(a, b) / (1 + std::exp(-sum_of(a, b))); }, 6, kPositive, kSigned, nullptr, kSum},
    {"add_tanh", add_tanh, ad::add_tanh, [](double a, double b) { return std::tanh(a + b); }, 5, kPositive, kSigned, nullptr, kSum},
    {"add_sigmoid", add_sigmoid, ad::add_sigmoid, [](double a, double b) { return 1 / (1 + std::exp(-a - b)); }, 6, kPositive, kSigned, nullptr, kSum},
};

const Bits kBits[] = {
    {"bitwise_and", bitwise_and, [](int64_t a, int64_t b) { return a & b; }, 99, true},
    {"bitwise_or", bitwise_or, [](int64_t a, int64_t b) { return a | b; }, 99, true},
    {"bitwise_xor", bitwise_xor, [](int64_t a, int64_t b) { return a ^ b; }, 99, true},
    {"bitwise_left_shift", bitwise_left_shift, [](int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) << b); }, 12, false},
    {"bitwise_right_shift", bitwise_right_shift, [](int64_t a, int64_t b) { return a >> b; }, 12, false},
    {"fmod", fmod, [](int64_t a, int64_t b) { return b == 0 ? 0 : a % b; }, 12, false},
    {"remainder", remainder, floor_mod, 12, false},
    {"pow", pow, power_of, 3, false},
};

const Ternary kTernary[] = {
    {"lerp", lerp, ad::lerp, [](double a, double b, double w) { return a + w * (b - a); },
     [](double a, double b, double w) { return (std::abs(a) + std::abs(b)) * (1 + std::abs(w)); }, 3},
    {"addcmul", [](const Tensor& x, const Tensor& a, const Tensor& b) { return addcmul(x, a, b); },
     [](const Var& x, const Var& a, const Var& b) { return ad::addcmul(x, a, b); },
     [](double x, double a, double b) { return x + a * b; },
     [](double x, double a, double b) { return std::abs(x) + std::abs(a * b); }, 2},
    {"addcdiv", [](const Tensor& x, const Tensor& a, const Tensor& b) { return addcdiv(x, a, b, -0.5); },
     [](const Var& x, const Var& a, const Var& b) { return ad::addcdiv(x, a, b, -0.5); },
     [](double x, double a, double b) { return x - 0.5 * a / b; },
     [](double x, double a, double b) { return std::abs(x) + std::abs(a / b); }, 3},
};
// clang-format on

// Differences of the reference are quick enough.
bool are_small(const std::vector<Shape>& shapes) {
  return std::ranges::all_of(shapes, [](const Shape& shape) { return shape.numel() < 1000; });
}

void add_binary(const Binary& f) {
  const auto add = [&f](const std::string& name, Input a, Input b, bool is_differentiated) {
    Case item{.kernel = f.kernel,
              .name = name,
              .inputs = {std::move(a), std::move(b)},
              .dtypes = kFloats,
              .call = [&f](Tensors x) { return std::vector{f.call(x[0], x[1])}; },
              .reference =
                  [&f](HostTensors x) {
                    Expected y = broadcasted(x[0], x[1], f.exact);
                    if (f.magnitude != nullptr) y.magnitudes = broadcasted(x[0], x[1], f.magnitude).values;
                    return std::vector{y};
                  },
              .tolerance = ulps(f.ulps),
              .vary = with_other_broadcasting};
    if (is_differentiated) {
      item.differentiable = [&f](Vars x) { return f.record(x[0], x[1]); };
      item.differentiated = {0, 1};
      item.gradient_rounds_up_to = f.rounded;
    }
    add_case(std::move(item));
  };
  add("1027", {{1027}, f.a}, {{1027}, f.b}, false);
  for (const auto& [name, shapes] : broadcasts_of_two()) {
    add(name, {shapes[0], f.a}, {shapes[1], f.b}, are_small(shapes) && shapes[0].rank() < 6);
  }
  for (const auto& [name, pattern] : {std::pair{"special", Pattern::special},
                                      {"denormal", Pattern::denormal},
                                      {"huge", Pattern::huge},
                                      {"tiny", Pattern::tiny},
                                      {"integers", Pattern::integers}}) {
    add(name, {{515}, {pattern, -4, 4}}, {{515}, {pattern, -4, 4}}, false);
  }
  add("6x35_left_stepped", {{6, 35}, f.a, Layout::stepped}, {{6, 35}, f.b}, false);
  add("263003_left_offset", {{263003}, f.a, Layout::offset}, {{263003}, f.b}, false);
  add("9x35_right_transposed", {{9, 35}, f.a}, {{9, 35}, f.b, Layout::transposed}, false);
}

void add_bits(const Bits& f) {
  const auto add = [&f](const std::string& name, Input a, Input b, std::vector<DType> dtypes) {
    add_case({.kernel = f.kernel,
              .name = "whole_" + name,
              .inputs = {std::move(a), std::move(b)},
              .dtypes = std::move(dtypes),
              .call = [&f](Tensors x) { return std::vector{f.call(x[0], x[1])}; },
              .reference =
                  [&f](HostTensors x) {
                    return std::vector{broadcasted(x[0], x[1], [&](double a, double b) {
                      return static_cast<double>(f.exact(static_cast<int64_t>(a), static_cast<int64_t>(b)));
                    })};
                  },
              .tolerance = kExact,
              .vary = with_other_broadcasting});
  };
  const Values a{Pattern::integers, -999, 999}, b{Pattern::integers, 0, static_cast<double>(f.highest)};
  add("1027", {{1027}, a}, {{1027}, b}, {DType::i64, DType::i32});
  for (const auto& [name, shapes] : broadcasts_of_two()) add(name, {shapes[0], a}, {shapes[1], b}, {DType::i64});
  add("stepped", {{1027}, a, Layout::stepped}, {{1027}, b, Layout::stepped}, {DType::i64});
  add("stepped_few_rows", {{5, 31}, a, Layout::stepped}, {{31}, b, Layout::stepped}, {DType::i64});
  add("stepped_long_rows", {{67, 1031}, a, Layout::stepped}, {{1031}, b, Layout::stepped}, {DType::i64});
  add("stepped_short_rows", {{2003, 33}, a, Layout::stepped}, {{33}, b, Layout::stepped}, {DType::i64});
  add("stepped_matrices", {{37, 15, 131}, a, Layout::stepped}, {{37, 1, 131}, b, Layout::stepped}, {DType::i64});
  add("stepped_small_matrices", {{3001, 3, 9}, a, Layout::stepped}, {{3001, 1, 9}, b, Layout::stepped}, {DType::i64});
  add("stepped_rank4", {{2, 3, 5, 33}, a, Layout::stepped}, {{2, 1, 5, 33}, b, Layout::stepped}, {DType::i64});
  if (f.has_bool) {
    const Values truth{Pattern::integers, 0, 1};
    add("bytes", {{5, 33}, {Pattern::integers, 0, 255}}, {{33}, {Pattern::integers, 0, 255}}, {DType::u8});
    add("truth", {{5, 33}, truth}, {{33}, truth}, {DType::boolean});
  }
}

// Each input in the shape of all of them together.
template <class F>
Expected broadcasted3(HostTensors x, F f) {
  const Shape shape = broadcast("reference", broadcast("reference", x[0].shape, x[1].shape), x[2].shape);
  std::vector<std::vector<double>> wide(3);
  for (size_t i = 0; i < 3; ++i) {
    for_each_index(shape, broadcast_strides(x[i].shape, shape),
                   [&](const Shape&, int64_t at) { wide[i].push_back(x[i].values[static_cast<size_t>(at)]); });
  }
  Expected y{shape, {}};
  for (size_t i = 0; i < wide[0].size(); ++i) y.values.push_back(f(wide[0][i], wide[1][i], wide[2][i]));
  return y;
}

void add_ternary(const Ternary& f) {
  const auto add = [&f](const std::string& name, Input a, Input b, Input c, bool is_differentiated) {
    Case item{.kernel = f.kernel,
              .name = name,
              .inputs = {std::move(a), std::move(b), std::move(c)},
              .dtypes = kFloats,
              .call = [&f](Tensors x) { return std::vector{f.call(x[0], x[1], x[2])}; },
              .reference =
                  [&f](HostTensors x) {
                    Expected y = broadcasted3(x, f.exact);
                    y.magnitudes = broadcasted3(x, f.magnitude).values;
                    return std::vector{y};
                  },
              .tolerance = ulps(f.ulps),
              .fixed_shapes = true};  // the reference is slow on large ones
    if (is_differentiated) {
      item.differentiable = [&f](Vars x) { return f.record(x[0], x[1], x[2]); };
      item.differentiated = {0, 1, 2};
    }
    add_case(std::move(item));
  };
  for (const auto& [name, shapes] : broadcasts_of_three()) {
    add(name, {shapes[0], kSigned}, {shapes[1], kSigned}, {shapes[2], kPositive}, are_small(shapes));
  }
  add("stepped", {{6, 35}, kSigned, Layout::stepped}, {{6, 35}, kSigned}, {{35}, kPositive, Layout::stepped}, false);
  add("263003_offset", {{263003}, kSigned, Layout::offset}, {{263003}, kSigned}, {{263003}, kPositive}, false);
  add("transposed", {{9, 35}, kSigned, Layout::transposed}, {{9, 35}, kSigned}, {{35}, kPositive}, false);
}

void add_where() {
  const auto add = [](const std::string& name, Input condition, Input a, Input b, std::vector<DType> dtypes,
                      bool is_differentiated) {
    condition.values = {Pattern::integers, 0, 1};
    condition.dtype = DType::boolean;
    Case item{.kernel = "where",
              .name = name,
              .inputs = {std::move(condition), std::move(a), std::move(b)},
              .dtypes = std::move(dtypes),
              .call = [](Tensors x) { return std::vector{where(x[0], x[1], x[2])}; },
              .reference =
                  [](HostTensors x) {
                    return std::vector{
                        broadcasted3(x, [](double condition, double a, double b) { return condition != 0 ? a : b; })};
                  }};
    item.fixed_shapes = true;
    if (is_differentiated) {
      item.differentiable = [](Vars x) { return ad::where(x[0].value(), x[1], x[2]); };
      item.differentiated = {1, 2};
    }
    add_case(std::move(item));
  };
  const std::vector<DType> all{DType::f32, DType::f16, DType::bf16, DType::f64};
  for (const auto& [name, shapes] : broadcasts_of_three()) {
    add(name, {shapes[0]}, {shapes[1]}, {shapes[2]}, all, are_small(shapes));
    const Values whole{Pattern::integers, -9, 9};
    add("whole_" + name, {shapes[0]}, {shapes[1], whole}, {shapes[2], whole}, {DType::i64}, false);
  }
  add("special", {{515}}, {{515}, {Pattern::special}}, {{515}, {Pattern::special}}, all, false);
  for (const Shape& shape : large_matrices()) {
    const Input apart{.shape = shape, .values = {Pattern::integers, -9, 9}, .layout = Layout::stepped};
    add("stepped_" + shape.str(), apart, apart, apart, {DType::i64, DType::f64}, false);
  }
  add("stepped", {.shape = {6, 35}, .layout = Layout::stepped}, {{6, 35}}, {.shape = {35}, .layout = Layout::stepped},
      all, false);
  for (const auto& [name, values, dtypes] :
       {std::tuple{"transposed", Values{}, all}, {"whole_transposed", {Pattern::integers, -9, 9}, {DType::i64}}}) {
    add(name, {{9, 35}}, {{9, 35}, values, Layout::transposed}, {{9, 35}, values}, dtypes, false);
  }
  add("integers", {{5, 33}}, {{33}, {Pattern::integers, -9, 9}}, {{5, 1}, {Pattern::integers, -9, 9}}, {DType::i32},
      false);
  add("truth", {{65}}, {{65}, {Pattern::integers, 0, 1}}, {{65}, {Pattern::integers, 0, 1}}, {DType::boolean}, false);
}

void add_prelu(const std::string& name, Input x, Input weight, bool is_differentiated = true) {
  Case item{.kernel = "prelu",
            .name = name,
            .inputs = {std::move(x), std::move(weight)},
            .dtypes = kFloats,
            .call = [](Tensors x) { return std::vector{prelu(x[0], x[1])}; },
            .reference =
                [](HostTensors x) {
                  HostTensor weight = x[1];
                  weight.shape = Shape::filled(x[0].shape.rank(), 1);
                  if (weight.values.size() != 1) weight.shape[1] = static_cast<int64_t>(weight.values.size());
                  const auto f = [](double v, double w) { return v > 0 ? v : w * v; };
                  return std::vector{broadcasted(x[0], weight, f)};
                },
            .tolerance = ulps(1)};
  if (is_differentiated) {
    item.differentiable = [](Vars x) { return ad::prelu(x[0], x[1]); };
    item.differentiated = {0, 1};
  }
  add_case(std::move(item));
}

// Σ dy x where x isn't positive, by channel.
void add_prelu_sums(const std::string& name, Shape shape, bool of_all, Values values = kSigned) {
  const auto channels_of = [of_all](const Shape& x) { return of_all ? 1 : x[1]; };
  add_case(
      {.kernel = "prelu_sums",
       .name = name,
       .inputs = {{shape, values}, {shape, kSigned}},
       .dtypes = {DType::f32},
       .call = [=](Tensors in) { return std::vector{prelu_weight_sums(in[1], in[0], channels_of(in[0].shape()))}; },
       .reference =
           [=](HostTensors in) {
             const auto count = static_cast<size_t>(channels_of(in[0].shape));
             Expected y{{channels_of(in[0].shape)}, std::vector<double>(count), std::vector<double>(count)};
             size_t space = 1;  // behind axis 1
             for (int axis = 2; axis < in[0].shape.rank(); axis++) space *= static_cast<size_t>(in[0].shape[axis]);
             for (size_t i = 0; i < in[0].values.size(); i++) {
               const double x = in[0].values[i], term = x > 0 ? 0 : x * in[1].values[i];
               y.values[i / space % count] += term;
               y.magnitudes[i / space % count] += std::abs(term);
             }
             return std::vector{y};
           },
       .tolerance = terms()});
}

// Shapes are [..., twice as many, ...]: half of it has no place in a draw of sizes.
void add_glu(const std::string& name, Input x, int64_t axis) {
  add_case({.kernel = "glu",
            .name = name,
            .inputs = {std::move(x)},
            .dtypes = kFloats,
            .call = [axis](Tensors x) { return std::vector{glu(x[0], axis)}; },
            .reference =
                [axis](HostTensors x) {
                  const HostTensor last = with_axis_moved(x[0], axis, -1);
                  const auto half = static_cast<size_t>(last.shape[last.shape.rank() - 1] / 2);
                  HostTensor y{last.shape, {}};
                  y.shape[y.shape.rank() - 1] /= 2;
                  for (size_t row = 0; half > 0 && row < last.values.size() / (2 * half); ++row) {
                    for (size_t c = 0; c < half; ++c) {
                      const double a = last.values[row * 2 * half + c], b = last.values[(row * 2 + 1) * half + c];
                      y.values.push_back(a / (1 + std::exp(-b)));
                    }
                  }
                  const HostTensor back = with_axis_moved(y, -1, axis);
                  return std::vector{Expected{back.shape, back.values}};
                },
            .tolerance = ulps(5),
            .differentiable = [axis](Vars x) { return ad::glu(x[0], axis); },
            .fixed_shapes = true});
}

}  // namespace

void add_binary_maths_cases() {
  for (const Binary& f : kBinary) add_binary(f);
  for (const Bits& f : kBits) add_bits(f);
  for (const Ternary& f : kTernary) add_ternary(f);
  add_where();
  add_prelu_sums("all", {5, 33}, true);
  add_prelu_sums("all_of_many", {19, 20'011}, true);
  for (const auto& [name, shape] : {std::pair{"columns", Shape{67, 64}},
                                    {"tall_columns", Shape{5003, 3}},
                                    {"channels", Shape{3, 7, 5}},
                                    {"large_channels", Shape{2, 3, 91, 87}},
                                    {"none", Shape{0, 4}},
                                    {"no_channels", Shape{4, 0}}}) {
    add_prelu_sums(name, shape, false);
  }
  add_prelu_sums("special", {9, 13}, false, {Pattern::special});
  add_prelu("one_weight", {{5, 33}, kSigned}, {{1}, kPositive});
  add_prelu("channels", {{3, 7, 5}, kSigned}, {{7}, kPositive});
  add_prelu("channels_last", {{67, 64}, kSigned}, {{64}, kPositive});
  add_prelu("rank1", {{37}, kSigned}, {{1}, kPositive});
  add_prelu("special", {{5, 103}, {Pattern::special}}, {{103}, kSigned}, false);
  add_prelu("of_4104", {{3, 4104}, kSigned}, {{4104}, kPositive}, false);
  add_prelu("of_12296", {{3, 12296}, kSigned}, {{12296}, kPositive}, false);
  add_prelu("of_1031", {{3, 1031}, kSigned}, {{1031}, kPositive}, false);
  add_prelu("channels_of_12296", {{1, 3, 12296}, kSigned}, {{3}, kPositive}, false);
  add_prelu("one_weight_of_4096", {{3, 4096}, kSigned}, {{1}, kPositive}, false);
  for (const Shape& shape : large_matrices()) {
    add_prelu("of_" + shape.str(), {shape, kSigned, Layout::stepped}, {{shape[1]}, kPositive}, false);
  }
  add_prelu("stepped", {{6, 35}, kSigned, Layout::stepped}, {{35}, kPositive});
  add_glu("last", {{5, 34}, kSigned}, -1);
  add_glu("first", {{6, 35}, kSigned}, 0);
  add_glu("middle_transposed", {{3, 8, 5}, kSigned, Layout::transposed}, 1);
  add_glu("rank1", {{1026}, kSigned}, 0);
  add_glu("of_64", {{67, 64}, kSigned}, -1);
  add_glu("of_8208", {{3, 8208}, kSigned}, -1);
  add_glu("of_24592", {{3, 24592}, kSigned}, -1);
  add_glu("first_of_64", {{8, 67, 64}, kSigned}, 0);
  for (const Shape& shape : large_matrices()) {
    add_glu("of_" + shape.str(), {{shape[0], shape[1], 2 * shape[2]}, kSigned}, -1);
  }
  add_glu("none", {{4, 0}}, -1);
}

}  // namespace ashlar::conformance

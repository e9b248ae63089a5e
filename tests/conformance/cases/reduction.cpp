// y = reduce(x, axes)
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

using Group = std::vector<double>;

// Longer than double: a few values, a million times added, are rounded the same way each time, and the reference would
// lose digits that f64 kernels have.
Reduced sum_of(const Group& x) {
  long double sum = 0;
  double magnitude = 0;
  for (const double v : x) {
    sum += v;
    magnitude += std::abs(v);
  }
  return {static_cast<double>(sum), magnitude};
}

Reduced mean_of(const Group& x) {
  const Reduced sum = sum_of(x);
  const auto n = static_cast<double>(x.size());
  return {sum.value / n, sum.magnitude / n};
}

void check_not_empty(const Group& x) {
  if (x.empty()) throw ShapeError("reference", "no elements", "one or more", "Skip the call");
}

Reduced maximum_of(const Group& x) {
  check_not_empty(x);
  if (x.size() == 1) return {x[0], 0};
  double largest = -std::numeric_limits<double>::infinity();
  for (double v : x) largest = max_of(largest, v);
  return {largest + 0.0, 0};  // a largest 0 is +0, whatever the order of zeros
}

// Σ (x - mean)² / (n - correction). A rounding of the mean moves the sum by its distance from each element. Longer
// than double, as in sum_of().
Reduced variance_of(const Group& x, double correction) {
  const auto n = static_cast<long double>(x.size());
  long double sum = 0, squares = 0;
  for (const double v : x) sum += v;
  const long double mean = sum / n;
  for (const double v : x) squares += (v - mean) * (v - mean);
  const auto variance = static_cast<double>(squares / std::max(n - correction, 0.0L));
  return {variance, variance + std::abs(static_cast<double>(mean)) * std::sqrt(variance)};
}
Reduced sample_variance_of(const Group& x) { return variance_of(x, 1); }
Reduced population_variance_of(const Group& x) { return variance_of(x, 0); }
Reduced variance_but_two_of(const Group& x) { return variance_of(x, 2.5); }

// m + ln Σ e^(x - m), of nothing and of -Inf alone -Inf
Reduced logsumexp_of(const Group& x) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double v : x) largest = max_of(largest, v);
  if (std::isinf(largest) || std::isnan(largest)) return {largest, 0};
  for (const double v : x) sum += std::exp(v - largest);
  const double y = largest + std::log(sum);
  return {y, 1 + std::abs(y)};
}

// Each product is rounded: of many, some roundings cancel.
Reduced product_of(const Group& x) {
  double product = 1;
  for (const double v : x) product *= v;
  return {product, std::abs(product) * std::max(1.0, std::sqrt(static_cast<double>(x.size())) / 100)};
}

// The first of equals; a NaN counts as the largest, as in NumPy and PyTorch.
Reduced position_of_maximum(const Group& x) {
  check_not_empty(x);
  size_t best = 0;
  for (size_t i = 1; i < x.size() && !std::isnan(x[best]); ++i) {
    if (x[i] > x[best] || std::isnan(x[i])) best = i;
  }
  return {static_cast<double>(best), 0};
}

Reduced minimum_of(const Group& x) {
  check_not_empty(x);
  if (x.size() == 1) return {x[0], 0};
  double smallest = std::numeric_limits<double>::infinity();
  for (double v : x) smallest = min_of(smallest, v);
  return {smallest + 0.0, 0};  // a smallest 0 is +0, whatever the order of zeros
}

Reduced position_of_minimum(const Group& x) {
  Group negated;
  for (double v : x) negated.push_back(-v);
  return position_of_maximum(negated);
}

// √variance, whose error is that of the variance over 2 std
Reduced sample_deviation_of(const Group& x) {
  const Reduced variance = variance_of(x, 1);
  const double deviation = std::sqrt(variance.value);
  return {deviation, deviation > 0 ? variance.magnitude / deviation : 0};
}

Reduced count_nonzero_of(const Group& x) {
  return {static_cast<double>(std::ranges::count_if(x, [](double v) { return v != 0; })), 0};
}
Reduced any_of(const Group& x) { return {count_nonzero_of(x).value > 0 ? 1.0 : 0.0, 0}; }
Reduced all_of(const Group& x) { return {count_nonzero_of(x).value == static_cast<double>(x.size()) ? 1.0 : 0.0, 0}; }

// (Σ |x|^p)^(1/p)
Reduced norm_of(const Group& x, double p) {
  if (p == 0) return count_nonzero_of(x);
  Group sizes;
  double sum = 0;
  for (double v : x) {
    sizes.push_back(std::abs(v));
    if (!std::isinf(p)) sum += std::pow(std::abs(v), p);
  }
  if (std::isinf(p)) return p > 0 ? maximum_of(sizes) : minimum_of(sizes);
  const double y = std::pow(sum, 1 / p);
  return {y, std::abs(y)};
}
constexpr double kInfinity = std::numeric_limits<double>::infinity();
Reduced norm_of_0(const Group& x) { return norm_of(x, 0); }
Reduced norm_of_half(const Group& x) { return norm_of(x, 0.5); }
Reduced norm_of_1(const Group& x) { return norm_of(x, 1); }
Reduced norm_of_2(const Group& x) { return norm_of(x, 2); }
Reduced norm_of_3(const Group& x) { return norm_of(x, 3); }
Reduced largest_norm_of(const Group& x) { return norm_of(x, kInfinity); }
Reduced smallest_norm_of(const Group& x) { return norm_of(x, -kInfinity); }

// Nothing is lost but what the result's own rounding costs, and the error of the sum of errors.
Reduced compensated_sum_of(const Group& x) {
  const Reduced sum = sum_of(x);
  return {sum.value, std::abs(sum.value) + 1e-6 * sum.magnitude};
}

struct Function {
  const char* name;
  Tensor (*call)(const Tensor&, const Axes&, bool);
  Var (*record)(const Var&, const Axes&, bool);
  Reduced (*exact)(const Group&);
  Tolerance tolerance;
  bool has_f64;
  bool has_empty;  // an empty group has a result
  Values values = {};
  Values distinct = {Pattern::distinct, -2, 2};  // for gradients
  std::optional<DType> result = {};              // where it isn't the input's
};

template <int Halves>
Tensor variance(const Tensor& x, const Axes& axes, bool keepdim) {
  return var(x, axes, keepdim, Halves / 2.0);
}
template <int Halves>
Var variance(const Var& x, const Axes& axes, bool keepdim) {
  return ad::var(x, axes, keepdim, Halves / 2.0);
}

template <double (*Power)()>
Tensor norm_with(const Tensor& x, const Axes& axes, bool keepdim) {
  return norm(x, Power(), axes, keepdim);
}
template <double (*Power)()>
Var norm_with(const Var& x, const Axes& axes, bool keepdim) {
  return ad::norm(x, Power(), axes, keepdim);
}
template <int Halves>
double power() {
  return Halves / 2.0;
}
template <int Sign>
double infinity() {
  return Sign * kInfinity;
}
Tensor deviation(const Tensor& x, const Axes& axes, bool keepdim) { return ashlar::std(x, axes, keepdim); }
Var deviation(const Var& x, const Axes& axes, bool keepdim) { return ad::std(x, axes, keepdim); }

// Products of many numbers neither overflow nor vanish when these are close to 1.
constexpr Values kNearOne{Pattern::uniform, 0.99, 1.01};

const Function kFunctions[] = {
    {"sum", sum, ad::sum, sum_of, terms(), true, true},
    {"mean", mean, ad::mean, mean_of, terms(), false, true},
    {"max", max, ad::max, maximum_of, ulps(0), true, false},
    {"min", min, ad::min, minimum_of, ulps(0), true, false},
    {"argmax", argmax, nullptr, position_of_maximum, kExact, true, false, {}, {}, DType::i64},
    {"argmin", argmin, nullptr, position_of_minimum, kExact, true, false, {}, {}, DType::i64},
    {"var", variance<2>, nullptr, sample_variance_of, terms(), true, true},
    {"logsumexp", logsumexp, ad::logsumexp, logsumexp_of, terms(), false, true},
    {"prod", prod, ad::prod, product_of, terms(), true, true, kNearOne, {Pattern::distinct, 0.9, 1.1}},
};

// Made of other reductions: fewer shapes.
constexpr Values kSomeZeros{Pattern::integers, -1, 1};
const Function kComposed[] = {
    {"amax", amax, ad::amax, maximum_of, ulps(0), true, false},
    {"amin", amin, ad::amin, minimum_of, ulps(0), true, false},
    {"compensated_sum", compensated_sum, ad::compensated_sum, compensated_sum_of, terms(3e-7), false, true},
    {"count_nonzero", count_nonzero, nullptr, count_nonzero_of, kExact, true, true, kSomeZeros, {}, DType::i64},
    {"any", any, nullptr, any_of, kExact, true, true, kSomeZeros, {}, DType::boolean},
    {"all", all, nullptr, all_of, kExact, true, true, kSomeZeros, {}, DType::boolean},
    {"std", deviation, deviation, sample_deviation_of, terms(), false, true},
    {"norm", norm_with<power<0>>, nullptr, norm_of_0, kExact, false, true, kSomeZeros},
    {"norm", norm_with<power<1>>, norm_with<power<1>>, norm_of_half, terms(1e-4), false, true},
    {"norm", norm_with<power<2>>, norm_with<power<2>>, norm_of_1, terms(), false, true},
    {"norm", norm_with<power<4>>, norm_with<power<4>>, norm_of_2, terms(), false, true},
    {"norm", norm_with<power<6>>, norm_with<power<6>>, norm_of_3, terms(), false, true},
    {"norm", norm_with<infinity<1>>, norm_with<infinity<1>>, largest_norm_of, ulps(0), false, false},
    {"norm", norm_with<infinity<-1>>, norm_with<infinity<-1>>, smallest_norm_of, ulps(0), false, false},
};
const char* const kComposedNames[] = {"",    "",      "",    "",    "",    "",       "",
                                      "p0_", "p0.5_", "p1_", "p2_", "p3_", "p_inf_", "p_-inf_"};

// The variance once more, recorded, and with other corrections: of one element, the first alone has a gradient.
const Function kPopulationVariance{"var", variance<0>, variance<0>, population_variance_of, terms(), true, true};
const Function kSampleVariance{"var", variance<2>, variance<2>, sample_variance_of, terms(), true, true};
const Function kVarianceButTwo{"var", variance<5>, nullptr, variance_but_two_of, terms(), true, true};

Case with_other_axes(const Function& f, const Case& like, Random& random);

Case example(const Function& f, std::string name, Input input, Axes axes = {}, bool keepdim = false) {
  if (input.values.pattern == Pattern::uniform && input.values.low == Values().low) input.values = f.values;
  Case item{.kernel = f.name,
            .name = std::move(name),
            .inputs = {std::move(input)},
            .call = [&f, axes, keepdim](Tensors x) { return std::vector{f.call(x[0], axes, keepdim)}; },
            .reference =
                [&f, axes, keepdim](HostTensors x) {
                  Expected y = reduced(x[0], axes, keepdim, f.exact);
                  y.dtype = f.result;
                  return std::vector{y};
                },
            .tolerance = f.tolerance,
            .vary = [&f](const Case& like, Random& random) { return with_other_axes(f, like, random); }};
  if (f.has_f64) item.dtypes.push_back(DType::f64);
  return item;
}

Case differentiable_example(const Function& f, std::string name, Input input, Axes axes, bool keepdim) {
  if (input.values.pattern == Pattern::uniform) input.values = f.distinct;
  Case item = example(f, std::move(name), std::move(input), axes, keepdim);
  if (f.record) item.differentiable = [&f, axes, keepdim](Vars x) { return f.record(x[0], axes, keepdim); };
  return item;
}

// Any rank, and any of the axes in any order, counted from either end.
Case with_other_axes(const Function& f, const Case& like, Random& random) {
  const int rank = static_cast<int>(random.pick<int64_t>({0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8}));
  const double share = random.pick({0.2, 0.5, 0.8});
  Axes axes;
  for (const int64_t axis : random.permutation(rank)) {
    if (random.chance(share)) axes.push_back(random.chance(0.3) ? axis - rank : axis);
  }
  const bool keepdim = random.chance(0.5);
  const std::string name = "over " + axes.str() + (keepdim ? " kept" : "");
  Input input = like.inputs[0];
  input.shape = symbols(rank, random);
  return like.differentiable ? differentiable_example(f, name, input, axes, keepdim)
                             : example(f, name, input, axes, keepdim);
}

void add_gradients(const Function& f) {
  add_case(differentiable_example(f, "gradient_all", {.shape = {3, 5, 4}}, {}, false));
  add_case(differentiable_example(f, "gradient_middle", {.shape = {3, 5, 4}}, {1}, false));
  add_case(differentiable_example(f, "gradient_outer_kept", {.shape = {3, 5, 4}}, {0, 2}, true));
  // Gradient kernels beyond one vector, tile and block.
  for (Case item : {differentiable_example(f, "gradient_rows_of_1025", {.shape = {7, 1025}}, {1}, false),
                    differentiable_example(f, "gradient_columns_of_1025", {.shape = {1025, 7}}, {0}, true),
                    differentiable_example(f, "gradient_all_of_4099", {.shape = {4099}}, {}, false)}) {
    if (f.exact == maximum_of || f.exact == minimum_of) item.gradient_dtypes = {DType::f32};  // 16 bits leave ties
    add_case(item);
  }
  add_case(differentiable_example(f, "gradient_stepped", {.shape = {4, 9}, .layout = Layout::stepped}, {-1}, false));
}

// Axes with others between them: a pass each, whichever is the longest, long ones in parts; and strides that need a
// copy.
void add_separated(const Function& f, const std::string& prefix) {
  for (const auto& [shape, axes, layout] : {std::tuple{Shape{4, 6, 7, 7}, Axes{0, 2, 3}, Layout::dense},
                                            {Shape{2100, 3, 5}, Axes{0, 2}, Layout::dense},
                                            {Shape{5, 3, 9001}, Axes{0, -1}, Layout::offset},
                                            {Shape{3, 5, 2, 7, 3, 4}, Axes{0, 2, 4}, Layout::dense},
                                            {Shape{3, 5, 2, 7, 3, 4}, Axes{5, 1, 3}, Layout::transposed},
                                            {Shape{6, 5, 33}, Axes{0, 2}, Layout::flipped},
                                            {Shape{6, 5, 33}, Axes{0, 2}, Layout::stepped},
                                            {Shape{70, 40, 3}, Axes{2, 0}, Layout::broadcast_first},
                                            {Shape{203, 3, 2}, Axes{0}, Layout::transposed}}) {
    Case item = example(
        f, prefix + "separated_" + shape.str() + "_over_" + axes.str() + "_" + std::to_string(static_cast<int>(layout)),
        {.shape = shape, .layout = layout}, axes, axes.rank() == 2);
    add_case(item);
  }
}

void add_composed(const Function& f, const std::string& prefix) {
  add_separated(f, prefix);
  Case long_one = example(f, prefix + "all_of_140001", {.shape = {140'001}});  // in parts on the CPU, too
  long_one.dtypes = {DType::f32};
  add_case(long_one);
  for (const int64_t n : {1, 2, 33, 1025, 9001}) {
    add_case(example(f, prefix + "rows_of_" + std::to_string(n), {.shape = {3, n}}, {1}));
    add_case(example(f, prefix + "columns_of_" + std::to_string(n), {.shape = {n, 5}}, {-2}, true));
  }
  // The sums of norms, by whole vectors of columns.
  if (!prefix.empty()) add_case(example(f, prefix + "columns_of_33x128", {.shape = {33, 128}}, {0}));
  // More rows than a GPU takes as few, and some that lie beside each other, short and long.
  add_case(example(f, prefix + "rows_of_70x301", {.shape = {70, 301}}, {1}));
  // So many that a warp's lanes share several.
  add_case(example(f, prefix + "rows_of_33000x33", {.shape = {33000, 33}}, {1}));
  add_case(example(f, prefix + "rows_of_4100x301", {.shape = {4100, 301}}, {1}));
  for (const Shape& shape : {Shape{3, 40, 2}, {5, 300, 9}, {70, 301, 3}}) {
    add_case(example(f, prefix + "beside_" + shape.str(), {.shape = shape}, {1}, true));
  }
  add_case(example(f, prefix + "all_of_rank0", {.shape = {}}));
  add_case(example(f, prefix + "all_of_100003", {.shape = {100003}}));
  add_case(example(f, prefix + "special", {{70, 33}, {Pattern::special}}, {1}));
  add_case(example(f, prefix + "special_columns", {{9, 65}, {Pattern::special}}, {0}));
  add_case(example(f, prefix + "no_rows", {.shape = {0, 5}}, {1}));
  if (f.has_empty) add_case(example(f, prefix + "empty_rows", {.shape = {5, 0}}, {1}));
  if (f.record == nullptr) return;
  // One element has no deviation, and its roots' sums leave 16 bits: no draws of these gradients.
  const bool is_drawn = f.exact != sample_deviation_of && f.exact != norm_of_half;
  for (Case item :
       {differentiable_example(f, prefix + "gradient_all", {.shape = {3, 5, 4}}, {}, false),
        differentiable_example(f, prefix + "gradient_middle", {.shape = {3, 5, 4}}, {1}, false),
        differentiable_example(f, prefix + "gradient_separated_kept", {.shape = {3, 5, 4}}, {0, -1}, true)}) {
    item.is_drawn = is_drawn;
    add_case(item);
  }
}

// Of integers: the largest and smallest in their own dtype, products in i64; whether any is there in all dtypes.
void add_integers() {
  for (const Function& f : kFunctions) {
    const bool is_position = f.exact == position_of_maximum || f.exact == position_of_minimum;
    const bool picks = f.exact == maximum_of || f.exact == minimum_of || is_position;
    if (!picks && f.exact != product_of) continue;
    // Over all axes but those between, and over one: short rows, few columns, many, and pairs of them.
    for (const auto& [shape, axes] : {std::pair{Shape{5, 33}, Axes{-1, 0}},
                                      {Shape{3, 9001}, Axes{-1, 0}},
                                      {Shape{4, 3, 70}, Axes{-1, 0}},
                                      {Shape{6, 33}, Axes{1}},
                                      {Shape{6, 9}, Axes{1}},
                                      {Shape{33, 6}, Axes{0}},
                                      {Shape{33, 21}, Axes{0}},
                                      {Shape{33, 64}, Axes{0}}}) {
      const Values values{Pattern::integers, picks ? -100.0 : -1.0, picks ? 100.0 : 1.0};
      const std::string over = axes.rank() == 1 ? "_over_" + axes.str() : "";
      Case item = example(f, "integers_" + shape.str() + over, {shape, values}, axes);
      item.dtypes = {DType::i64, DType::i32, DType::i8};
      if (!picks) {
        item.dtypes = {DType::i64, DType::i32};
        item.reference = [axes = axes](HostTensors x) {
          Expected y = reduced(x[0], axes, false, product_of);
          y.dtype = DType::i64;
          return std::vector{y};
        };
      }
      item.tolerance = kExact;
      item.fixed_shapes = true;
      item.vary = {};
      item.is_drawn = false;
      add_case(item);
    }
  }
  for (const Function& f : kComposed) {
    if (!f.result) continue;
    Case item = example(f, "integers", {{9, 70}, {Pattern::integers, 0, 1}}, {1});
    item.dtypes = {DType::i64, DType::i32, DType::i8, DType::u8, DType::boolean};
    add_case(item);
    Case ones = example(f, "ones", {{9, 70}, {Pattern::integers, 1, 1}}, {1});
    ones.dtypes = item.dtypes;
    add_case(ones);
    if (f.exact != count_nonzero_of) continue;  // one kernel counts for all three
    Case columns = example(f, "integers_in_columns", {{33, 128}, {Pattern::integers, 0, 1}}, {0});
    columns.dtypes = item.dtypes;
    add_case(columns);
  }
}

void add_function(const Function& f) {
  // Every subset of the axes of a rank-4 tensor.
  for (int subset = 1; subset < 16; ++subset) {
    Axes axes;
    std::string name = "3x4x5x7_over_";
    for (int axis = 0; axis < 4; ++axis) {
      if (!(subset >> axis & 1)) continue;
      axes.push_back(axis);
      name += std::to_string(axis);
    }
    add_case(example(f, name, {.shape = {3, 4, 5, 7}}, axes, subset % 2 == 0));
    add_case(example(f, name + "_transposed", {.shape = {3, 4, 5, 7}, .layout = Layout::transposed}, axes));
  }
  // Whole tensors and rows, around every lane, tile and block size; the long ones go in two passes.
  for (const int64_t n : {1, 2, 10, 15, 16, 17, 31, 32, 33, 63, 65, 127, 128, 129, 255, 257, 1000, 1023, 1024, 1025}) {
    add_case(example(f, "rows_of_" + std::to_string(n), {.shape = {5, n}}, {-1}));
    add_case(example(f, "columns_of_" + std::to_string(n), {.shape = {n, 5}}, {0}));
  }
  add_case(example(f, "rows_of_50257", {.shape = {3, 50257}}, {1}));
  add_case(example(f, "columns_of_50257", {.shape = {50257, 3}}, {0}));
  add_case(example(f, "1x1000000", {.shape = {1, 1'000'000}}, {1}));
  add_case(example(f, "all_of_100003", {.shape = {100003}}));
  add_case(example(f, "all_of_33x1025", {.shape = {33, 1025}}));
  add_case(example(f, "all_of_rank0", {.shape = {}}));
  for (const Layout layout : {Layout::transposed, Layout::stepped, Layout::flipped}) {
    const std::string name = "axes_of_one_" + std::to_string(static_cast<int>(layout));
    add_case(example(f, name, {.shape = {3, 1, 5, 1}, .layout = layout}, {1, 3}));
  }
  add_case(example(f, "special_axis_of_one", {{1, 65}, {Pattern::special}}, {0}));
  add_case(differentiable_example(f, "rank0_over_0", {.shape = {}}, {0}, false));
  add_case(differentiable_example(f, "rank0_over_last", {.shape = {}}, {-1}, true));
  add_case(example(f, "many_rows", {.shape = {4099, 3}}, {1}));
  add_case(example(f, "many_columns", {.shape = {3, 4099}}, {0}));
  // So many that a warp's lanes share several.
  add_case(example(f, "rows_of_33000x33", {.shape = {33000, 33}}, {1}));
  add_case(example(f, "rows_of_4100x301", {.shape = {4100, 301}}, {1}));
  // Wide columns: tiles of vectors, of elements where a row starts anywhere, the last tile's end, and parts.
  for (const Shape& shape : {Shape{3, 128}, Shape{257, 264}, Shape{70, 260}, Shape{70, 257}, Shape{2100, 520}}) {
    add_case(
        example(f, "columns_of_" + std::to_string(shape[0]) + "x" + std::to_string(shape[1]), {.shape = shape}, {0}));
  }
  add_case(example(f, "middle_of_3x70x264", {.shape = {3, 70, 264}}, {1}));
  add_case(example(f, "columns_of_70x256_offset", {.shape = {70, 256}, .layout = Layout::offset}, {0}));
  // More rows than a GPU takes as few, and some that lie beside each other, short and long.
  add_case(example(f, "rows_of_70x301", {.shape = {70, 301}}, {1}));
  for (const Shape& shape : {Shape{3, 40, 2}, {5, 300, 9}, {70, 301, 3}}) {
    add_case(example(f, "beside_" + shape.str(), {.shape = shape}, {1}));
  }
  // Many equal largest elements: the first counts for argmax, whichever thread sees it.
  const auto add_ties = [&](std::string name, const Shape& shape, int64_t axis) {
    Case item = example(f, std::move(name), {shape, {Pattern::integers, -2, 2}}, {axis});
    item.is_drawn = f.exact != product_of;  // of hundreds, products overflow before or after a 0, by their order
    add_case(item);
  };
  for (const int64_t n : {100, 2049, 5000}) {
    add_ties("ties_in_rows_of_" + std::to_string(n), {5, n}, 1);
    add_case(example(f, "special_rows_of_" + std::to_string(n), {{5, n}, {Pattern::special}}, {1}));
    add_case(example(f, "masked_rows_of_" + std::to_string(n), {{40, n}, {Pattern::masked}}, {1}));
  }
  add_ties("ties_in_columns", {1500, 40}, 0);
  add_case(example(f, "masked_columns", {{70, 1300}, {Pattern::masked}}, {0}));
  for (const auto& [name, layout] : {std::pair{"offset", Layout::offset},
                                     {"stepped", Layout::stepped},
                                     {"flipped", Layout::flipped},
                                     {"broadcast_first", Layout::broadcast_first},
                                     {"broadcast_last", Layout::broadcast_last}}) {
    const Input view{.shape = {9, 67}, .layout = layout};
    add_case(example(f, std::string("9x67_rows_") + name, view, {1}));
    add_case(example(f, std::string("9x67_columns_") + name, view, {0}));
  }
  for (const auto& [name, pattern] : {std::pair{"special", Pattern::special},
                                      {"denormal", Pattern::denormal},
                                      {"tiny", Pattern::tiny},
                                      {"integers", Pattern::integers}}) {
    Case item = example(f, name, {{70, 33}, {pattern}}, {1});
    // Of hundreds of whole numbers, products overflow before or after a 0, by their order.
    item.is_drawn = f.exact != product_of || pattern != Pattern::integers;
    add_case(item);
  }
  // Rows of one NaN or Inf among numbers, short and long.
  add_case(example(f, "special_columns", {{9, 1025}, {Pattern::special}}, {0}));
  add_case(example(f, "no_rows", {.shape = {0, 5}}, {1}));
  if (f.has_empty) add_case(example(f, "empty_rows", {.shape = {5, 0}}, {1}));
  if (f.exact != sample_variance_of) add_gradients(f);

  add_separated(f, "");

  for (const auto& [name, shape, axis] :
       {std::tuple{"rows_16384x1024", Shape{16384, 1024}, 1}, {"columns_16384x1024", Shape{16384, 1024}, 0}}) {
    Case bench = example(f, name, {.shape = shape}, {axis});
    bench.benchmark = true;
    add_case(bench);
  }
  Case bench = example(f, "all_of_16M", {.shape = {int64_t{1} << 24}});
  bench.benchmark = true;
  add_case(bench);
}

// Beside the default correction of 1, whose cases are those of every reduction.
void add_variances() {
  add_gradients(kPopulationVariance);
  for (const int64_t n : {1, 2, 3, 1025, 100003}) {
    const std::string rows = "rows_of_" + std::to_string(n);
    add_case(example(kPopulationVariance, "population_" + rows, {.shape = {3, n}}, {1}));
    add_case(example(kVarianceButTwo, "but_two_" + rows, {.shape = {3, n}}, {1}));
  }
  for (const Axes& axes : {Axes{}, Axes{1}, Axes{0, 2}}) {
    Case item = differentiable_example(kSampleVariance, "sample_gradient_over_" + axes.str(), {.shape = {3, 5, 4}},
                                       axes, axes.rank() == 1);
    item.fixed_shapes = true;
    item.vary = {};
    add_case(item);
  }
  // Σ x² - (Σ x)² / n would have no digit left here.
  for (const Shape& shape : {Shape{7, 1025}, Shape{1, 300'000}, Shape{1025, 70}}) {
    for (const int axis : {0, 1}) {
      Case item = example(kSampleVariance, "far_from_zero_" + shape.str() + "_over_" + std::to_string(axis),
                          {shape, {Pattern::uniform, 1000, 1001}}, {axis});
      item.dtypes = {DType::f32, DType::f64};
      add_case(item);
    }
  }
}

// So many parts that the last pass over them is one of long rows, and of columns.
void add_long_last_passes(const Function& f, const std::string& prefix, int64_t rows,
                          std::initializer_list<int64_t> columns, const std::vector<DType>& dtypes) {
  std::vector<Case> items{example(f, prefix + "all_of_2049x4096", {.shape = {2049 * 4096}})};
  for (const int64_t count : columns) {
    const std::string name = prefix + "columns_of_" + std::to_string(rows) + "x" + std::to_string(count);
    items.push_back(example(f, name, {.shape = {rows, count}}, {0}));
  }
  for (Case& item : items) {
    item.dtypes = dtypes;
    item.is_drawn = false;
    add_case(item);
  }
}

void add_long_last_passes() {
  for (const auto all : {std::span<const Function>(kFunctions), std::span<const Function>(kComposed)}) {
    for (const Function& f : all) {
      const std::string_view name = f.name;
      // States go from pass to pass.
      if (name == "argmax") add_long_last_passes(f, "", 6000, {33, 64}, {DType::f32});
      if (name == "var") add_long_last_passes(f, "", 600, {33, 64}, {DType::f32, DType::f64});
      if (name == "logsumexp" || name == "compensated_sum") add_long_last_passes(f, "", 600, {33, 64}, {DType::f32});
      // Results of 16 bits are rounded by the last pass.
      if (name == "sum" || name == "mean" || name == "max" || name == "min") {
        add_long_last_passes(f, "rounded_", 6000, {33, 128}, {DType::f16, DType::bf16});
      }
    }
  }
}

// The gradient of an element that is 0 is the product of the others, unless there is another 0.
void add_products_with_zeros() {
  const Function& f = *std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                    [](const Function& g) { return g.exact == product_of; });
  for (const int64_t n : {2, 3, 5}) {
    Case item = differentiable_example(f, "gradient_with_zeros_" + std::to_string(n),
                                       {{40, n}, {Pattern::integers, -2, 2}}, {1}, n == 3);
    item.is_drawn = false;  // products of thousands of them are infinite
    add_case(item);
  }
}

}  // namespace

void add_reduction_cases() {
  for (const Function& f : kFunctions) add_function(f);
  for (size_t i = 0; i < std::size(kComposed); ++i) add_composed(kComposed[i], kComposedNames[i]);
  add_integers();
  add_variances();
  add_long_last_passes();
  add_products_with_zeros();
}

}  // namespace ashlar::conformance

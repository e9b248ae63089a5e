// y = reduce(x, axes)
#include <cmath>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

using Group = std::vector<double>;

Reduced sum_of(const Group& x) {
  Reduced r{0, 0};
  for (double v : x) {
    r.value += v;
    r.magnitude += std::abs(v);
  }
  return r;
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
  double largest = -std::numeric_limits<double>::infinity();
  for (double v : x) largest = max_of(largest, v);
  return {largest + 0.0, 0};  // a largest 0 is +0, whatever the order of zeros
}

// Σ (x - mean)² / (n - correction). A rounding of the mean moves the sum by its distance from each element.
Reduced variance_of(const Group& x, double correction) {
  const auto n = static_cast<double>(x.size());
  double sum = 0, squares = 0;
  for (const double v : x) sum += v;
  for (const double v : x) squares += (v - sum / n) * (v - sum / n);
  const double variance = squares / std::max(n - correction, 0.0);
  return {variance, variance + std::abs(sum / n) * std::sqrt(variance)};
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
};

template <int Halves>
Tensor variance(const Tensor& x, const Axes& axes, bool keepdim) {
  return var(x, axes, keepdim, Halves / 2.0);
}
template <int Halves>
Var variance(const Var& x, const Axes& axes, bool keepdim) {
  return ad::var(x, axes, keepdim, Halves / 2.0);
}

// Products of many numbers neither overflow nor vanish when these are close to 1.
constexpr Values kNearOne{Pattern::uniform, 0.99, 1.01};

const Function kFunctions[] = {
    {"sum", sum, ad::sum, sum_of, terms(), true, true},
    {"mean", mean, ad::mean, mean_of, terms(), false, true},
    {"max", max, ad::max, maximum_of, ulps(0), false, false},
    {"argmax", argmax, nullptr, position_of_maximum, kExact, false, false},
    {"var", variance<2>, nullptr, sample_variance_of, terms(), true, true},
    {"logsumexp", logsumexp, ad::logsumexp, logsumexp_of, terms(), false, true},
    {"prod", prod, ad::prod, product_of, terms(), true, true, kNearOne, {Pattern::distinct, 0.9, 1.1}},
};

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
                  if (f.exact == position_of_maximum) y.dtype = DType::i64;
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
    if (f.exact == maximum_of) item.gradient_dtypes = {DType::f32};  // 16 bits leave ties
    add_case(item);
  }
  add_case(differentiable_example(f, "gradient_stepped", {.shape = {4, 9}, .layout = Layout::stepped}, {-1}, false));
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
  add_case(differentiable_example(f, "rank0_over_0", {.shape = {}}, {0}, false));
  add_case(differentiable_example(f, "rank0_over_last", {.shape = {}}, {-1}, true));
  add_case(example(f, "many_rows", {.shape = {4099, 3}}, {1}));
  add_case(example(f, "many_columns", {.shape = {3, 4099}}, {0}));
  // Wide columns: tiles of vectors, of elements where a row starts anywhere, the last tile's end, and parts.
  for (const Shape& shape : {Shape{3, 128}, Shape{257, 264}, Shape{70, 260}, Shape{70, 257}, Shape{2100, 520}}) {
    add_case(
        example(f, "columns_of_" + std::to_string(shape[0]) + "x" + std::to_string(shape[1]), {.shape = shape}, {0}));
  }
  add_case(example(f, "middle_of_3x70x264", {.shape = {3, 70, 264}}, {1}));
  add_case(example(f, "columns_of_70x256_offset", {.shape = {70, 256}, .layout = Layout::offset}, {0}));
  // Many equal largest elements: the first counts for argmax, whichever thread sees it.
  for (const int64_t n : {100, 2049, 5000}) {
    add_case(example(f, "ties_in_rows_of_" + std::to_string(n), {{5, n}, {Pattern::integers, -2, 2}}, {1}));
    add_case(example(f, "special_rows_of_" + std::to_string(n), {{5, n}, {Pattern::special}}, {1}));
    add_case(example(f, "masked_rows_of_" + std::to_string(n), {{40, n}, {Pattern::masked}}, {1}));
  }
  add_case(example(f, "ties_in_columns", {{1500, 40}, {Pattern::integers, -2, 2}}, {0}));
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
    add_case(example(f, name, {{70, 33}, {pattern}}, {1}));
  }
  // Rows of one NaN or Inf among numbers, short and long.
  add_case(example(f, "special_columns", {{9, 1025}, {Pattern::special}}, {0}));
  add_case(example(f, "no_rows", {.shape = {0, 5}}, {1}));
  if (f.has_empty) add_case(example(f, "empty_rows", {.shape = {5, 0}}, {1}));
  if (f.exact != sample_variance_of) add_gradients(f);

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
  add_variances();
  add_products_with_zeros();
}

}  // namespace ashlar::conformance

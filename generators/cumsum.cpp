// Running sums, products and maxima along an axis.
#include <limits>

#include "dsl/operator.h"
#include "schedules/scan.h"

namespace ashlar::dsl {

// y[r,c] = Σ_{k ≤ c} x[r,k]
struct RunningSum {
  static Merge merge(Halide::Type) {
    const auto plus = [](const Values& a, const Values& b) { return Values{a[0] + b[0]}; };
    return {.init = {0.0}, .step = plus, .merge = plus};
  }
  static void describe(auto& kernel) {
    kernel.formula("cumsum(x)[r,c] = Σ_{k ≤ c} x[r,k]");
    kernel.gradient("x", "cumsum_grad(dy, axis)").flops("static_cast<double>(shapes[0].numel())");
  }
};

// y[r,c] = Π_{k ≤ c} x[r,k]
struct RunningProduct {
  static Merge merge(Halide::Type type) {
    const auto times = [](const Values& a, const Values& b) { return Values{a[0] * b[0]}; };
    return {.init = {Value(Halide::Internal::make_one(type))}, .step = times, .merge = times};
  }
  static void describe(auto& kernel) {
    kernel.formula("cumprod(x)[r,c] = Π_{k ≤ c} x[r,k]");
    kernel.gradient("x", "cumprod_grad(dy, x, axis)").flops("static_cast<double>(shapes[0].numel())");
  }
};

// y[r,c] = max_{k ≤ c} x[r,k], NaN from the first NaN on
struct RunningMaximum {
  static Merge merge(Halide::Type type) {
    const auto larger = [](const Values& a, const Values& b) { return Values{max(a[0], b[0])}; };
    const double nothing = -std::numeric_limits<double>::infinity();
    const Expr least = type.is_float() ? Halide::Internal::make_const(type, nothing) : type.min();
    return {.init = {Value(least)}, .step = larger, .merge = larger};
  }
  static void describe(auto& kernel) {
    kernel.formula("y[r,c] = max_{k ≤ c} x[r,k]").internal();
    kernel.flops("static_cast<double>(shapes[0].numel())");
  }
};

const bool registered = register_scan<RunningSum, f32, f16, bf16, f64, i32, i64>("cumsum");
const bool others_registered =
    register_scan<RunningProduct, f32, i64>("cumprod") && register_scan<RunningMaximum, f32, i64>("running_max");
const bool operator_registered = register_operator(
    {.name = "cummax",
     .formula = "cummax(x): values[r,c] = max_{k ≤ c} x[r,k], NaN from the first NaN on; indices[r,c] "
                "the last k ≤ c where it stands",
     .dtypes = {DType::f32, DType::f16, DType::bf16, DType::i64},
     .inputs = {{"x"}},
     .options = {{.name = "axis", .default_value = -1}},
     .outputs = {{"values"}, {"indices", DType::i64}},
     .calls = {"running_max", "eq", "isnan", "where"},
     .gradients = {{"x", "sort_grad(dvalues, indices, x.shape(), axis)"}}});

}  // namespace ashlar::dsl

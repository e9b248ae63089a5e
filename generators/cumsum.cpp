// Running sums along an axis.
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

const bool registered = register_scan<RunningSum, f32, f16, bf16, f64, i32, i64>("cumsum");

}  // namespace ashlar::dsl

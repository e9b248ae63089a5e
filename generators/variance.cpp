// The variance over axes, by Welford's method.
#include "dsl/operator.h"
#include "schedules/reduction_kernel.h"

namespace ashlar::dsl {

// State {n, mean, Σ (x - mean)²}; that of two sets together by Chan, Golub & LeVeque (1983).
struct Variance {
  template <ElementType A>
  using State = Types<A, A, A>;
  Scalar<float> correction{"correction", 1.0f};

  static Merge merge(Halide::Type) {
    const auto merged = [](const Values& a, const Values& b) -> Values {
      const Value n = a[0] + b[0];
      const Value share = b[0] / select(n > 0, n, 1);
      const Value distance = b[1] - a[1];
      return {n, a[1] + distance * share, a[2] + b[2] + distance * distance * (a[0] * share)};
    };
    const auto step = [merged](const Values& state, const Values& x) { return merged(state, {1.0, x[0], 0.0}); };
    return {.init = {0.0, 0.0, 0.0}, .step = step, .merge = merged};
  }
  Value finish(const Values& state) const {
    const Value freedom = state[0] - Value(Value(correction).as(state[0].type()));
    // An infinity leaves an infinite or no mean, and the variance is none: mean - mean is NaN then, else 0.
    return state[2] / max(freedom, 0) + sum_as_written(state[1], -state[1]);
  }
  static void describe(auto& kernel) {
    kernel.formula("y = Σ_k (x[k] - mean)² / max(n - correction, 0), over n elements x[k]: NaN of fewer than two");
    kernel.of_none(OfNone::nan);
    kernel.gradient("x", "var_grad(dy, x, axes, keepdim, correction)").flops("5.0 * shapes[0].numel()");
  }
};

const bool registered =
    register_reduction<Variance, Pair<f32, f32>, Pair<f16, f32>, Pair<bf16, f32>, Pair<f64, f64>>("var");
const bool operator_registered =
    register_operator({.name = "std",
                       .formula = "std(x, axes) = √(Σ_k (x[k] - mean)² / max(n - correction, 0)), over n elements x[k]",
                       .dtypes = {DType::f32, DType::f16, DType::bf16},
                       .inputs = {{"x"}},
                       .scalars = {{.name = "correction", .default_value = "1.0"}},
                       .options = {{"axes", FormOption::Kind::integers}, {"keepdim", FormOption::Kind::boolean}},
                       .scalars_last = true,
                       .outputs = {{"y"}},
                       .calls = {"var", "sqrt"},
                       .gradients = {{"x", "std_grad(dy, x, y, axes, keepdim, correction)", {}}},
                       .flops = "5.0 * shapes[0].numel()"});

}  // namespace ashlar::dsl

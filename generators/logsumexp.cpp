// ln Σ e^x over axes, without overflow.
#include <limits>

#include "schedules/reduction_kernel.h"

namespace ashlar::dsl {

// State {m, Σ e^(x - m)} with m = max x held to finite numbers: then ∞ - ∞ never happens, an element of ±∞ weighs
// e^±∞, and a NaN, which m passes over, is in the sum.
struct LogSumExp {
  template <ElementType A>
  using State = Types<A, A>;

  static Merge merge(Halide::Type type) {
    const double largest = type.bits() == 64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
    const auto merged = [](const Values& a, const Values& b) -> Values {
      const Value is_below = a[0] < b[0];
      const Value e = exp_below_zero(select(is_below, a[0] - b[0], b[0] - a[0]));
      return {select(is_below, b[0], a[0]), select(is_below, a[1] * e + b[1], a[1] + b[1] * e)};
    };
    const auto step = [merged, largest](const Values& state, const Values& element) -> Values {
      const Value& x = element[0];
      const Value held = select(x > -largest, select(x < largest, x, largest), -largest);
      const Value weight = select(abs(x) > largest || is_nan(x), select(x < 0 && !is_nan(x), 0.0, x), 1.0);
      return merged(state, {select(is_nan(x), -largest, held), weight});
    };
    return {.init = {-largest, 0.0}, .step = step, .merge = merged};
  }
  Value finish(const Values& state) const { return log(state[1]) + state[0]; }
  static void describe(auto& kernel) {
    kernel.formula("y = ln Σ_k e^x[k]").of_none(OfNone::minus_infinity);
    kernel.gradient("x", "logsumexp_grad(dy, x, y, axes, keepdim)").flops("3.0 * shapes[0].numel()");
  }
};

const bool registered = register_reduction<LogSumExp, Pair<f32, f32>, Pair<f16, f32>, Pair<bf16, f32>>("logsumexp");

}  // namespace ashlar::dsl

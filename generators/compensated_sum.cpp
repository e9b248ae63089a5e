// Sums whose rounding errors are added up beside them.
#include <limits>

#include "dsl/functions/parts.h"
#include "schedules/reduction_kernel.h"

namespace ashlar::dsl {

// State {s, e}: the rounded sum and what its roundings lost, each found exactly by Knuth's TwoSum (The Art of Computer
// Programming 2, 4.2.2); the sum of Kahan (1965) as Neumaier (1974) has it, which takes terms larger than the sum.
struct CompensatedSum {
  template <ElementType A>
  using State = Types<A, A>;

  static Merge merge(Halide::Type) {
    const auto merged = [](const Values& a, const Values& b) -> Values {
      const Expr x = a[0].expr(), y = b[0].expr();
      const Expr sum = parts::add(x, y), of_y = parts::sub(sum, x), of_x = parts::sub(sum, of_y);
      const Expr lost = parts::add(parts::sub(x, of_x), parts::sub(y, of_y));
      return {Value(sum), Value(parts::add(parts::add(a[1].expr(), b[1].expr()), lost))};
    };
    const auto step = [merged](const Values& state, const Values& element) -> Values {
      return merged(state, {element[0], Value(Halide::Internal::make_zero(element[0].type()))});
    };
    return {.init = {0.0, 0.0}, .step = step, .merge = merged};
  }
  Value finish(const Values& state) const {
    // Of an infinite sum nothing is lost, and ∞ - ∞ says NaN.
    const Value lost = select(abs(state[1]) < std::numeric_limits<float>::infinity(), state[1], 0.0);
    return Value(parts::add(state[0].expr(), lost.expr()));
  }
  static void describe(auto& kernel) {
    kernel.formula("y = Σ_k x[k], with the errors of its roundings added up beside it").of_none(OfNone::zero);
    kernel.gradient("x", "sum_grad(dy, axes, keepdim, x.shape())").flops("7.0 * shapes[0].numel()");
  }
};

const bool registered = register_reduction<CompensatedSum, Pair<f32, f32>>("compensated_sum");

}  // namespace ashlar::dsl

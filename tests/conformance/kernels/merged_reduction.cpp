// A reduction by a merge whose state has values of two types, with a result of a third.
#include "schedules/reduction_kernel.h"

namespace ashlar::dsl {

// The first index of the smallest element that is a number, or -1.
struct FirstMinimum {
  template <ElementType A>
  using State = Types<A, i32>;
  template <ElementType A>
  using Result = i64;

  static Merge merge(Halide::Type) {
    const auto merged = [](const Values& a, const Values& b) -> Values {
      const Value is_smaller = b[0] < a[0] || (b[0] == a[0] && b[1] < a[1]);
      const Value takes_b = b[1] >= 0 && (a[1] < 0 || is_smaller);
      return {select(takes_b, b[0], a[0]), select(takes_b, b[1], a[1])};
    };
    const auto step = [merged](const Values& state, const Values& element) -> Values {
      const Value is_number = !is_nan(element[0]);
      return merged(state, {select(is_number, element[0], 0.0), select(is_number, element[1], -1)});
    };
    return {.init = {0.0, -1}, .step = step, .merge = merged};
  }
  Value finish(const Values& state) const { return Halide::cast<int64_t>(state[1].expr()); }
  static void describe(auto& kernel) { kernel.formula("y = the first k of the smallest x[k] that is a number, or -1"); }
};

const bool registered = register_reduction<FirstMinimum, Pair<f32, f32>, Pair<f16, f32>>("test_first_minimum");

}  // namespace ashlar::dsl

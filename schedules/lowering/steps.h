// Loops in steps of whole vectors over a number of elements that needn't be a multiple of theirs.
#pragma once

#include <Halide.h>

namespace ashlar::dsl {

/// Where the `step`-th of `width` elements begins, of `size`, which has at least one: the last begins within the one
/// before. A stage that is written so is written twice there, with the same: it needs allow_race_conditions().
inline Halide::Expr begin_of_step(const Halide::Expr& step, int width, const Halide::Expr& size) {
  return Halide::unsafe_promise_clamped(Halide::min(step * width, size - width), 0, size - width);
}

}  // namespace ashlar::dsl

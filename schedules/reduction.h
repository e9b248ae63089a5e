// Family: [outer, reduced, inner] with any strides, reduced to [outer, parts, inner]; part p takes one chunk.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// The stages of such a kernel: out(outer, part, inner) reads `reduce` at the same indices; `axis` runs over one chunk.
struct ReductionStages {
  Stage& reduce;
  Halide::RVar axis;
  Halide::Func out;
  Var outer, part, inner;
};

inline void reduction(Cpu, ReductionStages s) {
  Var task("task");
  s.out.fuse(s.part, s.outer, task).parallel(task);
  s.reduce.func().compute_at(s.out, s.inner);
}

template <class Gpu>
void reduction(Gpu, ReductionStages s) {
  Var x("x"), y("y");
  s.out.gpu_tile(s.inner, s.part, x, y, 32, 4, Halide::TailStrategy::GuardWithIf).gpu_blocks(s.outer);
  s.reduce.func().compute_at(s.out, x);
}

}  // namespace ashlar::dsl

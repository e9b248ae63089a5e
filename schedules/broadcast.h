// Family: a dense rank-4 output whose inputs have any strides, 0 where they are broadcast.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

inline void broadcast(Cpu, Halide::Func out, const std::vector<Var>& index) {
  Var outer("outer");
  const int lanes = Descriptor::target.natural_vector_size<float>();
  out.fuse(index[1], index[0], outer).parallel(outer).vectorize(index[3], lanes, Halide::TailStrategy::GuardWithIf);
}

template <class Gpu>
void broadcast(Gpu, Halide::Func out, const std::vector<Var>& index) {
  Var outer("outer"), x("x"), y("y");
  out.fuse(index[1], index[0], outer)
      .gpu_tile(index[3], index[2], x, y, 64, 4, Halide::TailStrategy::GuardWithIf)
      .gpu_blocks(outer);
}

}  // namespace ashlar::dsl

// Family: every output element depends on the input elements at its own index, over dense rank-1 tensors.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

inline void elementwise(Cpu, Halide::Func out, const Var& i) {
  Var chunk("chunk");
  const int lanes = Descriptor::target.natural_vector_size<float>();
  out.split(i, chunk, i, 16384, Halide::TailStrategy::GuardWithIf)
      .parallel(chunk)
      .vectorize(i, lanes, Halide::TailStrategy::GuardWithIf);
}

template <class Gpu>
void elementwise(Gpu, Halide::Func out, const Var& i) {
  Var thread("thread");
  out.gpu_tile(i, thread, 256, Halide::TailStrategy::GuardWithIf);
}

}  // namespace ashlar::dsl

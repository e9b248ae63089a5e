// Family: every output element depends on the input elements at its own index, over dense rank-1 tensors.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// `stages` are intermediates at the same index, held in registers. A kernel that writes over its inputs needs them:
/// all loads of an element then come before its first store.
inline void elementwise(Cpu, Halide::Func out, const Var& i, const std::vector<Stage*>& stages = {}) {
  Var chunk("chunk"), lane("lane");
  const int lanes = Descriptor::target.natural_vector_size<float>();
  out.split(i, chunk, i, 16384, Halide::TailStrategy::GuardWithIf)
      .split(i, i, lane, lanes, Halide::TailStrategy::GuardWithIf)
      .parallel(chunk)
      .vectorize(lane);
  for (Stage* stage : stages) {
    stage->func().compute_at(out, i).vectorize(stage->func().args()[0], lanes, Halide::TailStrategy::GuardWithIf);
  }
}

template <class Gpu>
void elementwise(Gpu, Halide::Func out, const Var& i, const std::vector<Stage*>& stages = {}) {
  Var thread("thread");
  out.gpu_tile(i, thread, 256, Halide::TailStrategy::GuardWithIf);
  for (Stage* stage : stages) stage->func().compute_at(out, thread);
}

}  // namespace ashlar::dsl

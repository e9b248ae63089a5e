// Family: dense [rows, columns]; some stages reduce a row to a value, then every element of the row is computed from it.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// The stages of such a kernel. `reductions` stand in the order in which they need each other; each reduces over its own
/// axis of all columns. `out` has indices (row, column), or (row) when nothing but the reductions' result is wanted.
struct RowReduction {
  Stage& stage;
  Halide::RVar axis;
};
struct RowStages {
  std::vector<RowReduction> reductions;
  Halide::Func out;
  Var row, column;
  bool out_has_columns = true;
};

inline void row_reduction(Cpu, RowStages s) {
  const int lanes = Descriptor::target.natural_vector_size<float>();
  s.out.parallel(s.row);
  if (s.out_has_columns) s.out.vectorize(s.column, lanes, Halide::TailStrategy::GuardWithIf);
  for (RowReduction& r : s.reductions) r.stage.func().compute_at(s.out, s.row);
}

template <class Gpu>
void row_reduction(Gpu, RowStages s) {
  Var thread("thread");
  if (!s.out_has_columns) {
    s.out.gpu_tile(s.row, thread, 32, Halide::TailStrategy::GuardWithIf);
    for (RowReduction& r : s.reductions) r.stage.func().compute_at(s.out, thread);
    return;
  }
  // Every value that all threads read is computed by one of them into shared memory.
  Var lane("lane");
  s.out.split(s.column, s.column, lane, 128, Halide::TailStrategy::GuardWithIf)
      .reorder(lane, s.column, s.row)
      .gpu_threads(lane)
      .gpu_blocks(s.row);
  for (RowReduction& r : s.reductions) {
    r.stage.func().compute_at(s.out, s.row).store_in(Halide::MemoryType::GPUShared);
  }
}

}  // namespace ashlar::dsl

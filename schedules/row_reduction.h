// Family: dense [rows, columns]; some stages reduce a row to a value, then every element of the row is computed from
// it.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// The stages of such a kernel. `reductions` stand in the order in which they need each other; each is a sum, maximum
/// or minimum over its own axis of all columns. `out` has indices (row, column), or (row) when nothing but the
/// reductions' result is wanted. Plain stages between them are computed where they are read and aren't listed.
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

/// Rows in parallel, each reduced in vector lanes.
void row_reduction(Cpu, const RowStages& stages);
/// By length: a thread, a share of a work-group or a work-group for each row; trees in local memory. Rows of up to 8192
/// columns of whole 16-byte vectors are loaded once, into local memory.
void row_reduction(OpenCL, const RowStages& stages);
/// The same, but short rows by a warp for several, with trees over its lanes and no barrier and whole vectors in
/// registers, unless the output has no columns.
void row_reduction(Cuda, const RowStages& stages);

}  // namespace ashlar::dsl

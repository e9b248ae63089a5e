// The shape of a GPU's block whose threads have two indices.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// How the threads of a block are numbered where several of them share each of several rows, or a tile's rows and
/// columns: in two dimensions on CUDA. On OpenCL in one and always as many, and rows beyond the last repeat it, so that
/// a driver compiles one kernel with little code: PoCL takes twice as long for two dimensions, and compiles anew for
/// each size.
struct GroupShape {
  bool is_line = Descriptor::target.has_feature(Halide::Target::OpenCL);

  /// The row that stages read for their row `row` of `rows`.
  Halide::Expr read_row(const Halide::Var& row, const Halide::Expr& rows) const;
  /// The innermost of the loops over threads (x, y).
  Halide::Var over_threads(Halide::Stage stage, const Halide::Var& x, const Halide::Var& y) const;
  /// For a stage that stores something for each of the block's `rows`.
  void bound_rows(Halide::Func func, const Halide::Var& row, int rows) const;
};

}  // namespace ashlar::dsl

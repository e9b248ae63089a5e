// Family: rows of a matrix that are reduced to values, from which each element of an output is computed, while sums
// over rows are taken of each column: gradients of normalisations, of which one reading of memory has all. For GPUs.
#pragma once

#include <vector>

#include "dsl/kernel.h"
#include "dsl/plans.h"

namespace ashlar::dsl {

/// The stages of such a kernel: `reductions` as RowStages has them, `out` of indices (row, column), and
/// sums[p,q,c] = Σ_r terms[q] at column c and row r of part p, which has the `rows_of_part` rows from p · rows_of_part
/// on.
struct RowSumStages {
  std::vector<std::reference_wrapper<Stage>> reductions;
  std::vector<Halide::Func> inputs;      ///< of rank 2, read once
  std::vector<Halide::Func> of_columns;  ///< of rank 1, an element for each column
  Halide::Func out;
  std::vector<Halide::Expr> terms;
  Halide::Func sums;  ///< its plain definition is replaced
  Var row, column, which, part;
  Halide::Expr rows, columns, rows_of_part;
};

/// The plans of such a kernel: a warp, or a block, goes through the rows of a part, which it holds in registers. Rows
/// have up to 8192 columns: longer ones are refused by an error.
class RowSumPlans {
 public:
  /// To be called in algorithm(). `aligned`: each row is a whole number of aligned vectors of 4.
  void declare(const Halide::Expr& columns, const Halide::Expr& aligned);
  void schedule(const RowSumStages& stages) const;

 private:
  Plans plans_;
};

}  // namespace ashlar::dsl

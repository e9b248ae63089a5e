// Family: rows of a matrix that are reduced to values, from which each element of an output is computed, while sums
// over rows are taken of each column: normalisations of rows and groups and their gradients, of which one reading of
// memory has all. For GPUs.
#pragma once

#include <vector>

#include "dsl/kernel.h"
#include "dsl/plans.h"

namespace ashlar::dsl {

/// The stages of such a kernel: `reductions` as RowStages has them, `out` of indices (row, column), and
/// sums[p,q,c] = Σ_r terms[q] at column c and row r of part p. Rows that are as many `classes` apart are of one class,
/// and have equal values in of_columns: part p has the rows r = (p div classes · rows_of_part + i) · classes + p mod
/// classes, i < rows_of_part. There may be no terms, and nothing in `sums` then.
struct RowSumStages {
  std::vector<std::reference_wrapper<Stage>> reductions;
  std::vector<Halide::Func> inputs;      ///< of (column, row), dense, read once
  std::vector<Halide::Func> of_columns;  ///< of (column, class)
  Halide::Func out;
  std::vector<Halide::Func> of_rows = {};  ///< further outputs, of (row)
  std::vector<Halide::Expr> terms;
  Halide::Func sums;  ///< of (column, which, part); its plain definition is replaced
  Var row, column, which, part;
  Halide::Expr rows, columns, classes, rows_of_part;
};

/// The plans of such a kernel: a warp, or a block, goes through the rows of a part, which it holds in registers. Rows
/// have up to 8192 columns: longer ones are refused by an error.
class RowSumPlans {
 public:
  /// To be called in algorithm(). `aligned`: the first row of everything begins at a multiple of 4 elements; the
  /// columns of all rows of a class, one after the other, come to one.
  void declare(const Halide::Expr& columns, const Halide::Expr& aligned);
  void schedule(const RowSumStages& stages) const;

 private:
  Plans plans_;
  std::vector<Halide::Expr> conditions_;  ///< of each
};

}  // namespace ashlar::dsl

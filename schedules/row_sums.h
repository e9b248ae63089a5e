// Family: rows of a matrix that are reduced to values, from which each element of an output is computed, while sums
// over rows are taken of each column: gradients of normalisations, of which one reading of memory has all. For GPUs.
#pragma once

#include <vector>

#include "dsl/kernel.h"
#include "dsl/plans.h"

namespace ashlar::dsl {

/// The stages of such a kernel: `reductions` as RowStages has them, `out` of indices (row, column), and
/// sums[p,q,c] = Σ_r terms[q] at column c and row r of part p. Rows that are as many `classes` apart are of one class,
/// and have equal values in of_columns: part p has the rows r = (p div classes · rows_of_part + i) · classes + p mod
/// classes, i < rows_of_part.
struct RowSumStages {
  std::vector<std::reference_wrapper<Stage>> reductions;
  std::vector<Halide::Func> inputs;       ///< of (column, row), dense, read once
  std::vector<Halide::Func> beside = {};  ///< of (column, row), dense, that `out` alone reads
  std::vector<Halide::Func> of_columns;   ///< of (column, class)
  Halide::Func out;
  std::vector<Halide::Expr> terms;
  /// Of (place, which, part), of a multiple of 4 places, 3 more than columns where these aren't one. Its plain
  /// definition is replaced.
  Halide::Func sums;
  Var row, column, which, part;
  Halide::Expr rows, columns, classes, rows_of_part;
};

/// The plans of such a kernel: a warp, or a block, goes through the rows of a part, which it holds in registers. Rows
/// have up to 16384 columns: longer ones are refused by an error.
class RowSumPlans {
 public:
  /// To be called in algorithm(). `aligned`: the first row of everything begins at a multiple of 4 elements. Callers
  /// see to it that as many rows as there are classes are a multiple of 4 elements.
  void declare(const Halide::Expr& columns, const Halide::Expr& aligned);
  void schedule(const RowSumStages& stages) const;

 private:
  Plans plans_;
  std::vector<Halide::Expr> conditions_;  ///< of each
};

}  // namespace ashlar::dsl

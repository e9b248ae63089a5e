// Rows of a row reduction that are loaded once: 16 bytes at a time into registers or shared memory, from where every
// reduction and the output read them.
#pragma once

#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tree.h"
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

/// How a row's columns lie on its threads: column ((step · threads) + thread) · vector + element.
struct RowLayout {
  int threads, steps, vector;
  int columns() const { return threads * steps * vector; }
};

/// The rank-2 inputs of `stages` that more than one of its reductions and output read, column by column; or those that
/// the output reads alone, after the reductions.
std::vector<Halide::Func> inputs_to_stage(const RowStages& stages);
std::vector<Halide::Func> inputs_of_output_alone(const RowStages& stages);

/// The rank-1 inputs of which `stages`, or its reductions alone, read an element for each column.
std::vector<Halide::Func> column_inputs(const RowStages& stages, bool of_reductions = false);

/// True where every row of every rank-2 input and output is a whole number of aligned vectors, and so is what is there
/// for each column.
Halide::Expr rows_are_aligned(const RowStages& stages, int vector);

/// A copy of rows of `input`: staged(element, thread, step, rest…), for the row that `row` gives from the rest, from
/// the layout's step `first` on. Threads beyond the last vector repeat it. Of one of column_inputs(), its only row. Of
/// what a Func reads at one loop level Halide computes what comes first in the alphabet first: `name` has a say in it.
Halide::Func stage_rows(const Halide::Func& input, const RowLayout& layout, const Halide::Expr& columns,
                        const Var& element, const Var& thread, const Halide::Expr& thread_in_row, const Var& step,
                        const std::vector<Var>& rest, const Halide::Expr& row, int first = 0,
                        const std::string& name = "");

/// True where all these are dense and begin at a multiple of `vector`, so that what lies before and behind a row is
/// another one.
Halide::Expr rows_are_runs(const RowStages& stages, int vector);

/// What `stage` reduces at `column`: nothing where `is_there` is false or its axis leaves the column out.
Halide::Expr value_where(const ReductionStage& stage, const Halide::Expr& column, const Halide::Expr& is_there,
                         const Rewrite& rewrite);

/// Steps [first, first + count) of a layout.
struct Steps {
  int first, count;
};

/// What one thread reduces: share(index…) over its elements, in an update for each part of the steps.
struct StagedShare {
  Halide::Func func;
  std::vector<Halide::RDom> each;  ///< of each update, x: elements, y: steps from the part's first; both to be unrolled
};
/// `reading` gives what the elements of a part are read from.
StagedShare make_staged_share(
    const ReductionStage& stage, const std::string& name, const std::vector<Var>& index, const RowLayout& layout,
    const Halide::Expr& thread_in_row, const std::vector<Steps>& parts,
    const std::function<Rewrite(size_t part, const Halide::RDom& each, const Halide::Expr& column)>& reading);

}  // namespace ashlar::dsl

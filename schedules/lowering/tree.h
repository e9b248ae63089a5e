// Reductions as trees: the stages that a family puts in place of a plain one.
#pragma once

#include "dsl/kernel.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {

/// part(…) = combine of value(k) over k = member, member + members, …: one member's share of `stage`. The pure
/// definition and the update over whole steps of `unroll` come first, then the update over the rest. Of a ranked stage
/// `func` holds something else than the stage's value: read `kept`, inlined or stored.
struct Share {
  Halide::Func func;
  Halide::Func kept;   ///< a copy of the finished `func`, for sharing between threads
  Halide::RDom steps;  ///< whole steps, the loop of the first update
  Halide::RDom rest;   ///< the last, partial step, if there is one
};
Share make_share(const ReductionStage& stage, const std::string& name, const std::vector<Halide::Var>& index,
                 const Halide::Expr& member, int members, int unroll, const Rewrite& rewrite);

/// Stages that combine members of `func` (its first coordinate, `members` of them, a power of two) eight at a time,
/// then the last few into one without that coordinate. The final one is last.
std::vector<Halide::Func> make_tree(const ReductionStage& stage, Halide::Func func, int members,
                                    const std::vector<Halide::Var>& index);

/// How the threads of a GPU's block are numbered where several of them reduce each of several rows: in two dimensions
/// on CUDA. On OpenCL in one and always as many, and rows beyond the last repeat it, so that a driver compiles one
/// kernel with little code: PoCL takes twice as long for two dimensions, and compiles anew for each size.
struct GroupShape {
  bool is_line = Descriptor::target.has_feature(Halide::Target::OpenCL);

  /// The row that stages read for their row `row` of `rows`.
  Halide::Expr read_row(const Halide::Var& row, const Halide::Expr& rows) const;
  /// The innermost of the loops over threads (x, y).
  Halide::Var over_threads(Halide::Stage stage, const Halide::Var& x, const Halide::Var& y) const;
  /// For a stage that stores something for each of the block's `rows`.
  void bound_rows(Halide::Func func, const Halide::Var& row, int rows) const;
  /// One thread for each (x, y) sums up in a register, then stores `kept` in shared memory.
  void share(Share& share, const Halide::LoopLevel& level, const Halide::Var& x, const Halide::Var& y) const;
  /// A stage of make_tree() in shared memory.
  void schedule_tree(Halide::Func stage, const Halide::LoopLevel& level, const Halide::Var& row, int rows) const;
};

}  // namespace ashlar::dsl

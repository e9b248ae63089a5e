// Reductions as trees: the stages that a family puts in place of a plain one.
#pragma once

#include "dsl/kernel.h"
#include "schedules/lowering/group_shape.h"
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

inline constexpr int kWarp = 32;

/// Stages that combine members of `func`, whose first coordinate is a lane of a warp: after the five steps
/// t(u) = t'(u) ∘ t'((u + d) mod 32), d = 16, 8, 4, 2, 1, every lane holds the whole warp's result. By shuffles,
/// without a barrier, and with no value computed by one lane for the others (which deadlocks in Halide 21). With fewer
/// `lanes` each group of so many neighbours holds its own, or of so many that lie `apart` from each other. The final
/// one is last; there is none of one lane.
std::vector<Halide::Func> make_rotation(const ReductionStage& stage, Halide::Func func, const Halide::Var& lane,
                                        const std::vector<Halide::Var>& rest, int lanes = kWarp, int apart = 1);
/// A stage of make_rotation(), or what it combines, in registers.
void in_lanes(Halide::Func func, const Halide::LoopLevel& level, const Halide::Var& lane);

/// On CUDA: the f32 `value` that the lane u xor `distance` of the same warp has, for code that all lanes run at once.
Halide::Expr warp_exchanged(const Halide::Expr& value, int distance);

/// Stages that combine `func`, whose first index is a thread of a block: after t(u) = t'(u) ∘ t'(u xor d), d = 16, 8,
/// 4, 2, 1, every thread has its warp's result. By shuffles; to be computed by all threads at once. The final one is
/// last.
std::vector<Halide::Func> make_exchanges(const ReductionStage& stage, Halide::Func func,
                                         const std::vector<Halide::Var>& index);
/// Every thread's own copy of the combined results of the warps that `threads` are, of which `kept` has one at each
/// thread of a warp.
Halide::Func make_sum_of_warps(const ReductionStage& stage, const Halide::Func& kept,
                               const std::vector<Halide::Var>& index, int threads);

/// On a GPU: one thread for each (x, y) of a block sums up in a register, then stores `kept` in shared memory.
void share_in_block(const GroupShape& group, Share& share, const Halide::LoopLevel& level, const Halide::Var& x,
                    const Halide::Var& y);
/// A stage of make_tree() in shared memory, for each of the block's `rows`.
void tree_in_block(const GroupShape& group, Halide::Func stage, const Halide::LoopLevel& level, const Halide::Var& row,
                   int rows);

}  // namespace ashlar::dsl

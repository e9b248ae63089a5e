// across_cluster(totals, blocks): reductions over the blocks of a cluster (compute capability 9.0 on).
//
// To Halide 21 blocks know nothing of each other. A schedule that shares a row among the `blocks` blocks of the grid's
// second dimension has stages without an index for them: each block's hold what belongs to its rank. It reduces its
// part to a `total` in shared memory; of_peer(total, …, p) is what block p of the same row has there. The pass gives
// every total its own place for each peer behind the kernel's other shared memory, where nothing else ever lies: a
// block writes its total into all peers' places, the cluster meets at a barrier, and from then on each reads its own.
// Before the first such write a block waits until all of the cluster have started; after the last meeting none touches
// another's memory, so that a block may end. Instructions are markers in the PTX (dsl/build/ptx_rewriter.h).
#pragma once

#include <Halide.h>

#include <memory>
#include <string>
#include <vector>

namespace ashlar::dsl {

/// This block's place in its cluster, 0 … blocks − 1. `thread`, any index of the block's threads, keeps the value
/// inside the kernel.
Halide::Expr rank_in_cluster(const Halide::Expr& thread, int blocks);

/// The value of `total` at `index` in block `peer` of the cluster: for schedules, in stages that read it.
Halide::Expr of_peer(const Halide::Func& total, const std::vector<Halide::Expr>& index, int peer);

/// Has the kernel under construction lowered with AcrossCluster, which also puts in the ranks. `totals` are computed at
/// block level into shared memory, 32 bits each, and read through of_peer() alone.
void across_cluster(const std::vector<Halide::Func>& totals, int blocks);

/// Has the kernel that computes `func` lowered with its second dimension of blocks, `strip`, at most `blocks`, as a
/// cluster, whose blocks meet at the end of each turn of the kernel's serial loop: from then on each sees what the
/// others stored in global memory. Blocks beyond the loop's extent are there too: the schedule guards what they would
/// store.
void steps_in_cluster(const Halide::Func& func, const Halide::Var& strip, int blocks);

/// True on the device of the call where clusters run.
Halide::Expr has_clusters();

/// The lowering pass behind across_cluster(), by the totals' names. Throws Halide::CompileError, naming the total,
/// unless its first reader follows a barrier of the block, in a kernel whose second dimension of blocks is `blocks`.
std::unique_ptr<Halide::Internal::IRMutator> across_cluster_pass(const std::vector<std::string>& totals, int blocks);

/// The lowering pass behind steps_in_cluster(). Throws Halide::CompileError, naming the Func, unless the kernel has one
/// such loop, which ends with a barrier of the block.
std::unique_ptr<Halide::Internal::IRMutator> steps_in_cluster_pass(const std::string& func, const std::string& strip,
                                                                   int blocks);

}  // namespace ashlar::dsl

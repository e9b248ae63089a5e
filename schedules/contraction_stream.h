// A plan of a contraction for CUDA and few rows: a layer's weights are read once, straight into registers.
// contraction_cuda.h chooses sizes and says when it applies.
#pragma once

#include "schedules/contraction_workgroup.h"

namespace ashlar::dsl {

/// A block computes `rows` × `columns` results. Its threads deal k among themselves by quads, neighbours next to each
/// other; each loads `unroll` quads of every row and column before it multiplies them.
struct StreamTile {
  int rows, columns, warps, unroll;
  int slices() const { return 32 * warps; }
};

// product(n, m, b) = Σ_g group(n, m, g, b),  group(n, m, g, b) = Σ_{s in group g} part(n, m, s, b)
// part(n, m, s, b) = Σ over turns t, Σ_u left(m, quad (t, u, s)) · right(n, quad (t, u, s)), a sum over the quad's four
// Both operands lie along k in aligned quads (QuadLoads). Beyond the last one they are 0.
inline ContractionPlan stream_plan(const ContractionProblem& p, const StreamTile& tile, const std::string& prefix,
                                   std::vector<Expr> when) {
  using Halide::Func;
  using Halide::MemoryType;
  using Halide::RVar;
  using Halide::Stage;
  using Halide::TailStrategy;
  constexpr int kGroup = 8;
  const Var n = p.column, m = p.row, b = p.batch;
  Var k("k"), u("u"), t("t"), s("s"), g("g");
  Func left(prefix + "_left"), right(prefix + "_right"), sums(prefix + "_sums"), part(prefix + "_part"),
      group(prefix + "_group"), product(prefix);
  const int slices = tile.slices(), groups = slices / kGroup;

  const Expr quad = (t * tile.unroll + u) * slices + s, quads = p.inner / 4;
  const Expr term = Halide::unsafe_promise_clamped(Halide::select(quad < quads, quad, 0), 0, quads - 1) * 4 + k;
  const auto in = ContractionProblem::inside;
  left(k, m, u, t, s, b) = Halide::select(quad < quads, p.left_at(term, in(m, p.rows), b), 0.0f);
  right(k, n, u, t, s, b) = Halide::select(quad < quads, p.right_at(in(n, p.columns), term, b), 0.0f);
  const int turn = slices * tile.unroll;  // quads
  const Halide::RDom r(0, 4, 0, tile.unroll, 0, (quads + turn - 1) / turn, "r");
  sums(n, m, s, b) = 0.0f;
  sums(n, m, s, b) += left(r.x, m, r.y, r.z, s, b) * right(r.x, n, r.y, r.z, s, b);
  part(n, m, s, b) = sums(n, m, s, b);
  Expr in_group = part(n, m, g * kGroup, b);
  for (int i = 1; i < kGroup; i++) in_group = in_group + part(n, m, g * kGroup + i, b);
  group(n, m, g, b) = in_group;
  Expr total = group(n, m, 0, b);
  for (int i = 1; i < groups; i++) total = total + group(n, m, i, b);
  product(n, m, b) = total;

  const Var block_n(prefix + "_block_n"), block_m(prefix + "_block_m");
  const auto over_threads = [=](Stage stage, const Var& item, const std::vector<Var>& outer) {
    Var lane("lane"), warp("warp");
    stage.split(item, item, lane, slices, TailStrategy::GuardWithIf).split(lane, warp, lane, 32);
    std::vector<Halide::VarOrRVar> order{item, lane, warp};
    order.insert(order.end(), outer.begin(), outer.end());
    stage.reorder(order).gpu_threads(lane, warp);
  };

  ContractionPlan plan;
  plan.name = prefix;
  plan.when = std::move(when);
  plan.product = product;
  plan.schedule_output = [=](Stage out) {
    out.split(n, block_n, n, tile.columns, TailStrategy::GuardWithIf);
    out.split(m, block_m, m, tile.rows, TailStrategy::GuardWithIf).fuse(n, m, n);
    over_threads(out, n, {block_n, block_m, b});
    out.gpu_blocks(block_n, block_m, b);
  };
  plan.schedule_stages = [=](Func out) {
    Func accumulators = sums, parts = part, partial = group, left_quads = left, right_quads = right;
    const auto of_block = [=](Func f, const Var& slice, int count) {
      f.compute_at(out, block_n).store_in(MemoryType::GPUShared);
      f.bound_extent(n, tile.columns).bound_extent(m, tile.rows).bound_extent(slice, count).bound_extent(b, 1);
    };
    of_block(partial, g, groups);
    partial.fuse(n, m, n).fuse(n, g, n);
    over_threads(partial, n, {b});
    of_block(parts, s, slices);
    Var lane("lane"), warp("warp");
    parts.split(s, warp, lane, 32).reorder(n, m, lane, warp, b).unroll(n).unroll(m).gpu_threads(lane, warp);

    accumulators.compute_at(parts, lane).store_in(MemoryType::Register);
    accumulators.bound_extent(n, tile.columns).bound_extent(m, tile.rows).bound_extent(s, 1).bound_extent(b, 1);
    accumulators.unroll(n).unroll(m);
    const RVar step = r.x, ahead = r.y, turns = r.z;
    accumulators.update().reorder({n, m, step, ahead, s, b, turns});
    accumulators.update().unroll(n).unroll(m).unroll(step).unroll(ahead);
    const auto load = [=](Func operand, const Var& along, int count) {
      operand.compute_at(accumulators, turns).store_in(MemoryType::Register);
      operand.bound(k, 0, 4).bound_extent(along, count).bound(u, 0, tile.unroll).bound_extent(s, 1).bound_extent(b, 1);
      operand.vectorize(k).unroll(along).unroll(u);
    };
    load(right_quads, n, tile.columns);
    load(left_quads, m, tile.rows);
  };
  return plan;
}

}  // namespace ashlar::dsl

// Plans of a contraction for CUDA and a few rows, or columns: the other operand, which lies along k, as a layer's
// weights do, or across it, is read once, straight into registers. contraction_cuda.h chooses among them.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "runtime/launch/few_rows.h"
#include "schedules/contraction_model.h"
#include "schedules/contraction_workgroup.h"
#include "schedules/lowering/accesses.h"
#include "schedules/lowering/per_thread.h"

namespace ashlar::dsl {

/// A block computes `rows` × `columns` results. Its threads deal k among themselves by vectors, neighbours next to each
/// other; each loads `unroll` vectors of every row and column before it multiplies them.
struct StreamTile {
  int rows, columns, warps, unroll, vector = 1;
  int slices() const { return 32 * warps; }
  int terms() const { return vector * unroll * slices(); }
};

// product(n, m, b) = Σ_g group(n, m, g, b),  group(n, m, g, b) = Σ_{s in group g} part(n, m, s, b)
// part(n, m, s, b) = Σ over turns t, Σ_u left(m, vector (t, u, s)) · right(n, vector (t, u, s)), a sum over its terms
// The other operand lies along k, or has few columns; for vectors of four both lie along k in aligned quads
// (QuadLoads). Beyond the last one they are 0.
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

  const Expr vector = (t * tile.unroll + u) * slices + s, vectors = p.inner / tile.vector;
  const Expr term =
      Halide::unsafe_promise_clamped(Halide::select(vector < vectors, vector, 0), 0, vectors - 1) * tile.vector + k;
  const auto in = ContractionProblem::inside;
  left(k, m, u, t, s, b) = Halide::select(vector < vectors, p.left_at(term, in(m, p.rows), b), 0.0f);
  right(k, n, u, t, s, b) = Halide::select(vector < vectors, p.right_at(in(n, p.columns), term, b), 0.0f);
  const int turn = slices * tile.unroll;  // vectors
  const Halide::RDom r(0, tile.vector, 0, tile.unroll, 0, (vectors + turn - 1) / turn, "r");
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
    Func accumulators = sums, parts = part, partial = group, left_vectors = left, right_vectors = right;
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
      operand.bound(k, 0, tile.vector).bound(u, 0, tile.unroll);
      operand.bound_extent(along, count).bound_extent(s, 1).bound_extent(b, 1);
      operand.vectorize(k).unroll(along).unroll(u);
    };
    load(right_vectors, n, tile.columns);
    load(left_vectors, m, tile.rows);
  };
  return plan;
}

/// A block computes neighbours of `rows` rows. Each thread has some columns: as far apart as `lanes` are many, or for
/// vectors of four next to each other. Those with the same columns deal k among themselves, each by `unroll` vectors of
/// terms that it loads before it multiplies them.
struct AcrossTile {
  static constexpr int kWarps = 8;
  int rows, columns_of_thread, unroll, lanes = 32, vector = 1;
  int registers = 96;  ///< of a thread, for all loads of a turn: unless told, ptxas leaves room for 1024 threads
  constexpr int columns() const { return lanes * columns_of_thread; }
  int slices() const { return kWarps * 32 / lanes; }
  int terms() const { return slices() * unroll * vector; }
};

// product(n, m, b) = Σ_s part(n, m, s, b),  part(n, m, s, b) = Σ over turns t, Σ_u left(m, vector (t, u, s)) ·
//   right(n, vector (t, u, s)), a sum over its terms
// For a right operand that lies along its columns, and few rows. For vectors of four it does so, and the left one along
// k, in aligned quads (QuadLoads).
inline ContractionPlan across_plan(const ContractionProblem& p, const AcrossTile& tile, const std::string& prefix,
                                   std::vector<Expr> when) {
  using Halide::Func;
  using Halide::MemoryType;
  using Halide::RVar;
  using Halide::Stage;
  using Halide::TailStrategy;
  const int lanes = tile.lanes, slices = tile.slices(), each = tile.columns_of_thread, vector = tile.vector;
  const bool is_vector = vector > 1;
  const Var n = p.column, m = p.row, b = p.batch;
  Var l("l"), j("j"), g("g"), k("k"), u("u"), t("t"), s("s");  // a column is lane l's j-th of block g
  Func left(prefix + "_left"), right(prefix + "_right"), last_left(prefix + "_last_left"),
      last_right(prefix + "_last_right"), sums(prefix + "_sums"), part(prefix + "_part"), product(prefix);

  const auto promised = ContractionProblem::promised;
  const auto inside = [&](const Expr& i, const Expr& extent) { return promised(Halide::min(i, extent - 1), extent); };
  // Of quads the last one lies wholly inside.
  const Expr quads = p.columns / each,
             column = is_vector ? promised(Halide::min(g * lanes + l, quads - 1), quads) * each + j
                                : inside((g * each + j) * lanes + l, p.columns),
             row = inside(m, p.rows);
  const Expr vectors = p.inner / vector, turns = vectors / (tile.unroll * slices), done = turns * tile.unroll * slices;
  const Expr at = (t * tile.unroll + u) * slices + s, last = done + u * slices + s;
  const auto term = [&](const Expr& of_vector) { return promised(of_vector, vectors) * vector + k; };
  const auto of_last = [&](const Expr& value) { return Halide::select(last < vectors, value, 0.0f); };
  left(k, u, m, t, s, b) = p.left_at(term(at), row, b);
  right(j, k, u, t, l, s, g, b) = p.right_at(column, term(at), b);
  last_left(k, u, m, t, s, b) = of_last(p.left_at(term(Halide::min(last, vectors - 1)), row, b));
  last_right(j, k, u, t, l, s, g, b) = of_last(p.right_at(column, term(Halide::min(last, vectors - 1)), b));
  const Halide::RDom whole(0, vector, 0, tile.unroll, 0, turns, "whole"),
      rest(0, vector, 0, tile.unroll, 0, Halide::select(done < vectors, 1, 0), "rest");
  sums(j, m, l, s, g, b) = 0.0f;
  sums(j, m, l, s, g, b) += left(whole.x, whole.y, m, whole.z, s, b) * right(j, whole.x, whole.y, whole.z, l, s, g, b);
  sums(j, m, l, s, g, b) +=
      last_left(rest.x, rest.y, m, rest.z, s, b) * last_right(j, rest.x, rest.y, rest.z, l, s, g, b);
  part(j, l, m, s, g, b) = sums(j, m, l, s, g, b);
  const auto part_at = [&](int slice) {
    const Expr lane_of = is_vector ? n / each % lanes : n % lanes, of_lane = is_vector ? n % each : n / lanes % each;
    return part(of_lane, lane_of, m, slice, n / tile.columns(), b);
  };
  Expr total = part_at(0);
  for (int i = 1; i < slices; i++) total = total + part_at(i);
  product(n, m, b) = total;

  const Var block_n(prefix + "_block_n"), block_m(prefix + "_block_m"), lane("lane"), warp("warp");
  ContractionPlan plan;
  plan.name = prefix;
  plan.when = std::move(when);
  plan.product = product;
  plan.schedule_output = [=](Stage out) {
    out.split(n, block_n, n, tile.columns(), TailStrategy::GuardWithIf)
        .split(n, n, lane, lanes)
        .split(m, block_m, m, tile.rows, TailStrategy::GuardWithIf)
        .fuse(n, m, n)
        .split(n, n, warp, std::min(tile.rows * each, slices))
        .reorder({n, lane, warp, block_n, block_m, b})
        .gpu_threads(lane, warp)
        .gpu_blocks(block_n, block_m, b);
  };
  plan.schedule_stages = [=](Func out) {
    Func accumulators = sums, parts = part;
    parts.compute_at(out, block_n).store_in(MemoryType::GPUShared);
    parts.bound(l, 0, lanes).bound(j, 0, each).bound(s, 0, slices).bound_extent(m, tile.rows);
    parts.bound_extent(g, 1).bound_extent(b, 1);
    parts.reorder({j, m, l, s, g, b}).unroll(m).gpu_threads(l, s);
    if (is_vector)
      parts.vectorize(j);
    else
      parts.unroll(j).reorder_storage(l, j, m, s, g, b);
    accumulators.compute_at(parts, l).store_in(MemoryType::Register);
    accumulators.bound(j, 0, each).bound_extent(m, tile.rows).bound_extent(l, 1).bound_extent(s, 1);
    accumulators.bound_extent(g, 1).bound_extent(b, 1).unroll(j).unroll(m);
    limit_registers(accumulators, tile.registers);
    const auto update = [&](int index, const Halide::RDom& r, Func of_left, Func of_right) {
      const RVar step = r.x, ahead = r.y, turn = r.z;
      accumulators.update(index).reorder({j, m, step, ahead, l, s, g, b, turn});
      accumulators.update(index).unroll(j).unroll(m).unroll(step).unroll(ahead);
      for (Func operand : {of_left, of_right}) {
        operand.compute_at(accumulators, turn).store_in(MemoryType::Register);
        operand.bound(k, 0, vector).bound_extent(u, tile.unroll).bound_extent(t, 1).bound_extent(s, 1);
        operand.bound_extent(b, 1).unroll(u);
      }
      of_left.bound_extent(m, tile.rows).unroll(m);
      of_right.bound(j, 0, each).bound_extent(l, 1).bound_extent(g, 1).unroll(k);
      if (is_vector) {
        of_left.vectorize(k);
        of_right.vectorize(j);
      } else {
        of_left.unroll(k);
        of_right.unroll(j);
      }
    };
    update(0, whole, left, right);
    update(1, rest, last_left, last_right);
    if (is_vector) aligned_vectors();
  };
  return plan;
}

/// The quickest of 28 on an H200, at 5500 products drawn at random, a third of them of up to 16 rows or columns, and
/// 106 large layers. Wide pieces of rows are for matrices that no cache holds.
inline constexpr std::array kTilesAlongK{
    NamedTile<StreamTile>{"along_1", {.rows = 1, .columns = 2, .warps = 4, .unroll = 4}},
    NamedTile<StreamTile>{"along_1_deep", {.rows = 1, .columns = 1, .warps = 8, .unroll = 8}},
    NamedTile<StreamTile>{"along_1_wide", {.rows = 1, .columns = 4, .warps = 2, .unroll = 4}},
    NamedTile<StreamTile>{"along_1_quads", {.rows = 1, .columns = 2, .warps = 4, .unroll = 2, .vector = 4}},
    NamedTile<StreamTile>{"along_4", {.rows = 4, .columns = 2, .warps = 4, .unroll = 4}},
    NamedTile<StreamTile>{"along_4_quads", {.rows = 4, .columns = 2, .warps = 8, .unroll = 1, .vector = 4}},
    NamedTile<StreamTile>{"along_8", {.rows = 8, .columns = 2, .warps = 8, .unroll = 2}},
    NamedTile<StreamTile>{"along_8_quads", {.rows = 8, .columns = 2, .warps = 4, .unroll = 1, .vector = 4}},
};
inline constexpr std::array kTilesAcrossK{
    NamedTile<AcrossTile>{"across_1", {.rows = 1, .columns_of_thread = 1, .unroll = 8}},
    NamedTile<AcrossTile>{"across_1_deep", {.rows = 1, .columns_of_thread = 1, .unroll = 16}},
    NamedTile<AcrossTile>{"across_1_wide", {.rows = 1, .columns_of_thread = 2, .unroll = 4}},
    NamedTile<AcrossTile>{"across_4", {.rows = 4, .columns_of_thread = 1, .unroll = 4}},
    NamedTile<AcrossTile>{"across_8", {.rows = 8, .columns_of_thread = 1, .unroll = 4}},
    NamedTile<AcrossTile>{"across_8_quads",
                          {.rows = 8, .columns_of_thread = 4, .unroll = 1, .lanes = 8, .vector = 4, .registers = 128}},
    NamedTile<AcrossTile>{"across_8_quads_deep",
                          {.rows = 8, .columns_of_thread = 4, .unroll = 2, .lanes = 4, .vector = 4, .registers = 168}},
    NamedTile<AcrossTile>{"far_across_4", {.rows = 4, .columns_of_thread = 4, .unroll = 4}},
};

static_assert(kTilesAlongK.back().tile.rows == FewRows::kAlong);
inline constexpr AcrossTile kTileOfQuads =
    std::ranges::find(kTilesAcrossK, "across_8_quads", &NamedTile<AcrossTile>::name)->tile;
static_assert(kTileOfQuads.rows == FewRows::kRowsOfQuads && kTileOfQuads.columns() == FewRows::kColumnsOfQuads &&
              2 * kTileOfQuads.rows == FewRows::kQuadsAcross);

struct FewRowsPlan {
  ContractionPlan plan;
  ModelledTile tile;
  bool is_along_k;
};

/// The plan of this tile, whose name it has behind `before`, with when it applies: up to twice a tile's rows, for which
/// the other operand is read twice. Of few columns that operand may lie anyhow: neighbours read its lines whole.
inline FewRowsPlan few_rows_plan(const ContractionProblem& p, std::string_view name, const std::string& before = {}) {
  const std::string prefix = before + std::string(name);
  if (const auto* along = std::ranges::find(kTilesAlongK, name, &NamedTile<StreamTile>::name);
      along != kTilesAlongK.end()) {
    const StreamTile& tile = along->tile;
    const QuadLoads can = quad_loads(p);
    const Expr is_right_along = p.right.column_stride != 1 && p.right.row_stride == 1;
    Expr applies = can.left_along_k && p.right.column_stride != 1 && can.right_along_k;
    if (tile.vector == 1)
      applies = lies_either_way(p) ? is_right_along || p.columns <= FewRows::kOfFewColumns : is_right_along;
    return {stream_plan(p, tile, prefix, {p.rows <= 2 * tile.rows && applies}),
            {tile.rows, tile.columns, tile.terms(), tile.warps},
            true};
  }
  const AcrossTile& tile = std::ranges::find(kTilesAcrossK, name, &NamedTile<AcrossTile>::name)->tile;
  const QuadLoads can = quad_loads(p);
  const Expr applies = tile.vector == 1 ? p.right.column_stride == 1 : can.left_along_k && can.right_along_columns;
  return {across_plan(p, tile, prefix, {p.rows <= 2 * tile.rows && applies}),
          {tile.rows, tile.columns(), tile.terms(), AcrossTile::kWarps},
          false};
}

/// The same for few columns: few rows of the transposed product.
inline FewRowsPlan few_columns_plan(const ContractionProblem& p, std::string_view name) {
  FewRowsPlan few = few_rows_plan(transposed(p), name, "tall_");
  Halide::Func turned(few.plan.name + "_turned");
  turned(p.column, p.row, p.batch) = few.plan.product(p.row, p.column, p.batch);
  few.plan.product = turned;
  std::swap(few.tile.rows, few.tile.columns);
  return few;
}

}  // namespace ashlar::dsl

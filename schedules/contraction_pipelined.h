// A plan of a contraction for CUDA: sums in registers, tiles of the operands streamed through shared memory.
// contraction_cuda.h chooses sizes and says when each applies.
#pragma once

#include "schedules/contraction_workgroup.h"
#include "schedules/lowering/per_thread.h"
#include "schedules/lowering/stage_async.h"

namespace ashlar::dsl {

/// The order in which a thread goes through its sums: a quad of columns for all its rows, quad by quad, column by
/// column for four terms, or sum by sum for four terms. Which one suits is a matter of register allocation, to be
/// measured; the last two are for operands that lie along k.
enum class PipelinedOrder { rows, quads, columns, sums };

/// How a block divides its work. A warp's lanes stand lanes_n along columns, lanes_k along k and the rest along rows;
/// each holds lane_rows × lane_columns sums, in groups of four neighbours, or one by one where the operand's tile lies
/// along k. Of a block's warps, warps_m stand along rows, warps_n along columns, warps_k along k. Threads that differ
/// only along k sum different terms, `depth` of each stage, a multiple of four; their sums are added at the end, in
/// shared memory.
struct PipelinedTile {
  int lane_rows, lane_columns, lanes_n, lanes_k = 1;
  int warps_m, warps_n, warps_k = 1;
  int depth, stages;
  PipelinedOrder order;
  int lead;           ///< how much of a turn's work stands before its copies (stage_async)
  int registers = 0;  ///< at most so many for a thread (limit_registers); 0: the assembler's choice

  int lanes_m() const { return 32 / (lanes_n * lanes_k); }
  int rows() const { return lane_rows * lanes_m() * warps_m; }
  int columns() const { return lane_columns * lanes_n * warps_n; }
  int slices() const { return lanes_k * warps_k; }
  int stage_depth() const { return depth * slices(); }
  int warps() const { return warps_m * warps_n * warps_k; }
  /// Bytes of shared memory: the tiles in flight, and in their place at the end the sums of all slices.
  int shared_bytes() const {
    const int operands = stages * (stage_depth() + 4) * (rows() + columns() + 8);
    return 4 * std::max(operands, slices() > 1 ? slices() * rows() * columns() : 0);
  }
  /// Blocks of it that one multiprocessor of 64 K registers and 163 KB of shared memory (sm_80) holds at a time.
  int resident_blocks() const {
    constexpr int kRegisters = 65536, kMostOfAThread = 255, kUnit = 8, kSharedBytes = 163 << 10;
    const int each = ((registers > 0 ? registers : kMostOfAThread) + kUnit - 1) / kUnit * kUnit;
    return std::min(kRegisters / (each * 32 * warps()), kSharedBytes / shared_bytes());
  }
};

/// 64 × 64 results by two warps: a multiprocessor holds several of such blocks.
inline constexpr PipelinedTile kTileOfTwoWarps{.lane_rows = 8,
                                               .lane_columns = 8,
                                               .lanes_n = 8,
                                               .warps_m = 2,
                                               .warps_n = 1,
                                               .depth = 8,
                                               .stages = 3,
                                               .order = PipelinedOrder::columns,
                                               .lead = 10};
/// 32 × 32 results, whose terms eight warps share.
inline constexpr PipelinedTile kSmallestTile{.lane_rows = 8,
                                             .lane_columns = 4,
                                             .lanes_n = 8,
                                             .warps_m = 1,
                                             .warps_n = 1,
                                             .warps_k = 8,
                                             .depth = 8,
                                             .stages = 3,
                                             .order = PipelinedOrder::quads,
                                             .lead = 2};

/// What a pipelined plan may take for granted about the calls it is for.
struct PipelinedAccess {
  bool whole_stages = false;  ///< k is a multiple of the tile's stage_depth()
  bool quads = false;         ///< rows of the result are aligned and their lengths multiples of four
  bool whole_tiles = false;   ///< rows and columns are no fewer than a tile's: the last tile is moved inwards
  /// The operand lies in memory along k, in aligned quads: it is copied by them and its tile lies along k too.
  bool left_along_k = false, right_along_k = false;
  /// The right tile lies along k, however the operand does, and is copied element by element: a thread's columns are
  /// then as far apart as a warp has lanes along them, so that a warp stores whole sectors without quads.
  bool columns_apart = false;
  /// A kernel for each pair of the operands' layouts, so that no branch stands among a turn's copies, from sm_80 on.
  bool by_layouts = false;
  /// What the output reads beside its sum, by its own (column, row, batch): loaded before the first turn and kept in
  /// registers, so that of few terms it doesn't wait for memory once more.
  std::vector<Halide::Func> loaded_ahead = {};
};

// product(n, m, b) = Σ_s sums(n, m, s, b),  sums(n, m, s, b) = Σ over stages t, Σ_{k in slice s of stage t}
//   left(k, m) right(n, k),  where left and right are 0 beyond the last k
inline ContractionPlan pipelined_plan(const ContractionProblem& p, const PipelinedTile& tile,
                                      const PipelinedAccess& access, const std::string& prefix,
                                      std::vector<Expr> when) {
  using Halide::Func;
  using Halide::MemoryType;
  using Halide::RVar;
  using Halide::Stage;
  using Halide::TailStrategy;
  const Var n = p.column, m = p.row, b = p.batch;
  Var k("k"), s("s");
  Func left(prefix + "_left"), right(prefix + "_right"), sums(prefix + "_sums"), product(prefix);
  const int slices = tile.slices(), stage_depth = tile.stage_depth();

  // Beyond the last k both operands are 0; asynchronous copies read nothing there. Beyond the last row or column any
  // element will do, since no result is stored there; of a quad, which lies wholly inside or wholly outside, the first
  // one.
  const QuadLoads can = quad_loads(p);
  const auto term = [&](bool in_quads) {
    return access.whole_stages || in_quads || has_async_copies() ? Halide::unsafe_promise_clamped(k, 0, p.inner - 1)
                                                                 : ContractionProblem::inside(k, p.inner);
  };
  const auto element = [&](const Var& i, const Expr& extent, const Expr& in_quads, const auto& at) {
    if (access.whole_tiles) return at(Halide::unsafe_promise_clamped(i, 0, extent - 1));
    const Expr quad = Halide::unsafe_promise_clamped(Halide::select(i / 4 < extent / 4, i / 4, 0), 0, extent / 4 - 1);
    return at(Halide::select(in_quads, quad * 4 + i % 4, ContractionProblem::inside(i, extent)));
  };
  const auto or_zero = [&](bool in_quads, const Expr& value) {
    if (access.whole_stages) return value;
    return Halide::select(in_quads ? k / 4 < p.inner / 4 : k < p.inner, value, 0.0f);
  };
  const bool left_k = access.left_along_k, right_k = access.right_along_k || access.columns_apart;
  left(k, m, b) = or_zero(left_k, element(m, p.rows, left_k ? Expr(false) : can.left_along_rows,
                                          [&](const Expr& row) { return p.left_at(term(left_k), row, b); }));
  const bool right_in_quads = access.right_along_k;
  right(n, k, b) =
      or_zero(right_in_quads, element(n, p.columns, right_k ? Expr(false) : can.right_along_columns,
                                      [&](const Expr& column) { return p.right_at(column, term(right_in_quads), b); }));
  // What a thread multiplies is read in quads: the quad of k is kq, the place in it kr.
  Var kr("kr"), kq("kq");
  Func left_quad(prefix + "_left_quad"), right_quad(prefix + "_right_quad");
  left_quad(kr, m, kq, b) = left(kq * 4 + kr, m, b);
  right_quad(kr, n, kq, b) = right(n, kq * 4 + kr, b);
  const Halide::RDom r(0, 4, 0, tile.depth / 4, 0, (p.inner + stage_depth - 1) / stage_depth, "r");
  const Expr r_quad = r.z * (stage_depth / 4) + s * (tile.depth / 4) + r.y;
  sums(n, m, s, b) = 0.0f;
  sums(n, m, s, b) += left_quad(r.x, m, r_quad, b) * right_quad(r.x, n, r_quad, b);
  Func part(prefix + "_part");
  part(n, m, s, b) = sums(n, m, s, b);
  const Func& summed = slices > 1 ? part : sums;
  Expr total = summed(n, m, 0, b);
  for (int i = 1; i < slices; i++) total = total + summed(n, m, i, b);
  product(n, m, b) = total;

  const Var block_n(prefix + "_block_n"), block_m(prefix + "_block_m");
  const int lanes_n = tile.lanes_n, lanes_m = tile.lanes_m(), lanes_k = tile.lanes_k;
  const int rows = tile.rows(), columns = tile.columns(), warps = tile.warps();
  // Rows of a tile along k lie an odd number of quads apart (see below): lanes that read neighbours read all banks.
  const int group_m = left_k ? 1 : 4, group_n = right_k ? 1 : 4;

  // A block's tile over its threads; the tile's own loops are those of `n` and `m`.
  struct Loops {
    Var n4{"n4"}, n1{"n1"}, m4{"m4"}, m1{"m1"}, lane{"lane"}, warp{"warp"};
  };
  const auto over_threads = [=](Stage stage, const Loops& v, bool with_slices) {
    Var warp_n("warp_n"), warp_m("warp_m"), lane_n("lane_n"), lane_m("lane_m"), lane_k("lane_k"), warp_k("warp_k"),
        lane_low("lane_low");
    stage.split(n, warp_n, n, columns / tile.warps_n).split(m, warp_m, m, rows / tile.warps_m);
    stage.split(n, v.n4, n, group_n * lanes_n).split(n, lane_n, v.n1, group_n);
    stage.split(m, v.m4, m, group_m * lanes_m).split(m, lane_m, v.m1, group_m);
    // Two lanes next to each other share a column quad: of the ways to lay lanes out this takes the fewest passes
    // through shared memory for a quad per lane.
    if (lanes_m > 1) stage.split(lane_m, lane_m, lane_low, 2).fuse(lane_low, lane_n, lane_n);
    if (with_slices) {
      stage.split(s, warp_k, lane_k, lanes_k);
      stage.fuse(lane_n, lane_m, v.lane).fuse(v.lane, lane_k, v.lane);
      stage.fuse(warp_n, warp_m, v.warp).fuse(v.warp, warp_k, v.warp);
    } else {
      stage.fuse(lane_n, lane_m, v.lane).fuse(warp_n, warp_m, v.warp);
    }
  };

  ContractionPlan plan;
  plan.name = prefix;
  plan.when = std::move(when);
  plan.product = product;
  plan.schedule_output = [=](Stage out) {
    Var x("x"), y("y");
    const TailStrategy tail = access.whole_tiles ? TailStrategy::ShiftInwards : TailStrategy::GuardWithIf;
    out.split(n, block_n, n, columns, tail).split(m, block_m, m, rows, tail);
    if (slices > 1) {  // the sums of all slices lie in shared memory; neighbouring threads store neighbouring columns
      Var lane("lane"), warp("warp");
      out.fuse(n, m, n).split(n, n, lane, 32 * warps, TailStrategy::GuardWithIf).split(lane, warp, lane, 32);
      out.reorder(n, lane, warp, block_n, block_m, b).gpu_threads(lane, warp);
    } else {
      Loops v;
      over_threads(out, v, false);
      out.reorder(v.n1, v.n4, v.m1, v.m4, v.lane, v.warp, block_n, block_m, b);
      if (access.quads && !right_k)
        out.vectorize(v.n1);
      else
        out.unroll(v.n1);
      out.unroll(v.n4).unroll(v.m1).unroll(v.m4).gpu_threads(v.lane, v.warp);
    }
    out.gpu_blocks(block_n, block_m, b);
  };
  // The conditions under which copies differ, below.
  const Expr left_is_n = p.left.column_stride == 1, right_is_n = p.right.column_stride == 1;
  if (access.by_layouts && has_async_copies()) {
    plan.apart = {{left_is_n, can.left_along_rows}, {right_is_n}};
    if (!right_k) plan.apart[1].insert(plan.apart[1].begin(), can.right_along_columns);
  }
  plan.schedule_stages = [=](Func out) {
    Func accumulators = sums, parts = part, left_tile = left, right_tile = right;
    accumulators.compute_at(out, block_n);
    accumulators.bound_extent(n, columns).bound_extent(m, rows).bound_extent(s, slices).bound_extent(b, 1);
    Loops v;
    over_threads(accumulators, v, true);
    accumulators.reorder(v.n1, v.n4, v.m1, v.m4, v.lane, v.warp, b);
    accumulators.unroll(v.n1).unroll(v.n4).unroll(v.m1).unroll(v.m4).gpu_threads(v.lane, v.warp);
    Stage update = accumulators.update();
    over_threads(update, v, true);
    const RVar step = r.x, quad = r.y, stage = r.z;
    if (tile.order == PipelinedOrder::rows)
      update.reorder({v.m1, v.m4, v.n1, v.n4, step, quad, v.lane, v.warp, b, stage});
    else if (tile.order == PipelinedOrder::quads)
      update.reorder({v.n1, v.m1, v.n4, v.m4, step, quad, v.lane, v.warp, b, stage});
    else if (tile.order == PipelinedOrder::columns)
      update.reorder({v.m1, v.m4, step, v.n1, v.n4, quad, v.lane, v.warp, b, stage});
    else
      update.reorder({step, v.m1, v.m4, v.n1, v.n4, quad, v.lane, v.warp, b, stage});
    update.unroll(v.n1).unroll(v.n4).unroll(v.m1).unroll(v.m4).unroll(step).unroll(quad).gpu_threads(v.lane, v.warp);
    per_thread(accumulators);
    if (tile.registers > 0) limit_registers(accumulators, tile.registers);

    if (slices > 1) {
      Loops q;
      parts.compute_at(out, block_n).store_in(MemoryType::GPUShared);
      parts.bound_extent(n, columns).bound_extent(m, rows).bound_extent(s, slices).bound_extent(b, 1);
      over_threads(parts, q, true);
      parts.reorder(q.n1, q.n4, q.m1, q.m4, q.lane, q.warp, b);
      (right_k ? parts.unroll(q.n1) : parts.vectorize(q.n1))
          .unroll(q.n4)
          .unroll(q.m1)
          .unroll(q.m4)
          .gpu_threads(q.lane, q.warp);
    }

    // What a thread multiplies in one step, in registers: four neighbours at a time. They stand where they are used,
    // and the compiler reads each once.
    const auto read_quads = [&](Func quads, const Var& at, const Var& along, bool is_along_k) {
      quads.compute_at(accumulators, at).store_in(MemoryType::Register);
      if (is_along_k)
        quads.bound(kr, 0, 4).bound_extent(along, 1).vectorize(kr);
      else
        quads.bound_extent(along, 4).vectorize(along);
    };
    read_quads(left_quad, v.m4, m, left_k);
    read_quads(right_quad, v.n4, n, right_k);

    // A tile lies along rows or columns, transposed if need be, so that a thread finds its own next to each other, or
    // along k. A padding of four floats spreads the writes of a transposing copy, and the reads of a tile along k, over
    // the memory banks and keeps quads aligned.
    left_tile.compute_at(accumulators, stage);
    if (left_k)
      left_tile.align_storage(k, stage_depth + 4);
    else
      left_tile.reorder_storage(m, k, b).align_storage(m, rows + 4);
    left_tile.bound_extent(k, stage_depth).bound_extent(m, rows).bound_extent(b, 1);
    right_tile.compute_at(accumulators, stage);
    if (right_k)
      right_tile.reorder_storage(k, n, b).align_storage(k, stage_depth + 4);
    else
      right_tile.align_storage(n, columns + 4);
    right_tile.bound_extent(k, stage_depth).bound_extent(n, columns).bound_extent(b, 1);

    for (Func ahead : access.loaded_ahead) {
      Loops a;
      ahead.compute_at(out, block_n).bound_extent(n, columns).bound_extent(m, rows).bound_extent(b, 1);
      over_threads(ahead, a, false);
      ahead.reorder(a.n1, a.n4, a.m1, a.m4, a.lane, a.warp, b);
      ahead.unroll(a.n1).unroll(a.n4).unroll(a.m1).unroll(a.m4).gpu_threads(a.lane, a.warp);
      per_thread(ahead);
    }

    const auto deal = [=](Stage stage, const Var& item) {
      Var warp("warp");
      stage.split(item, item, warp, warps).unroll(item);
      return warp;
    };
    const auto copy_quads = [=](Stage stage, const Var& along, const Var& other) {
      Var quad("quad"), lane("lane"), item("item");
      stage.split(along, along, quad, 4).vectorize(quad).fuse(along, other, item).split(item, item, lane, 32);
      const Var warp = deal(stage, item);
      stage.reorder({quad, item, lane, warp, b}).gpu_threads(lane, warp);
    };
    const auto copy_single = [=](Stage stage, const Var& along) {
      Var lane("lane"), item("item");
      stage.fuse(along, k, item).split(item, item, lane, 32);
      const Var warp = deal(stage, item);
      stage.reorder({item, lane, warp, b}).gpu_threads(lane, warp);
    };
    const auto copy_transposing = [=](Stage stage, const Var& along, int of_k = 8) {  // × the rest of a warp
      Var lane("lane"), item("item"), low("low");
      stage.split(k, k, lane, of_k).split(along, along, low, 32 / of_k).fuse(lane, low, lane).fuse(k, along, item);
      const Var warp = deal(stage, item);
      stage.reorder({item, lane, warp, b}).gpu_threads(lane, warp);
    };
    if (left_k) {
      copy_quads(left_tile, k, m);
    } else {
      copy_transposing(left_tile.specialize(left_is_n), m);
      copy_quads(left_tile.specialize(can.left_along_rows), m, k);
      copy_single(left_tile, m);
    }
    if (access.right_along_k) {
      copy_quads(right_tile, k, n);
    } else if (right_k) {
      copy_transposing(right_tile.specialize(right_is_n), n, 4);
      copy_transposing(right_tile, n);
    } else {
      copy_quads(right_tile.specialize(can.right_along_columns), n, k);
      copy_single(right_tile.specialize(right_is_n), n);
      copy_transposing(right_tile, n);
    }
    stage_async({left_tile, right_tile}, out, block_n, tile.stages, tile.lead, /*bounded=*/true);
  };
  return plan;
}

}  // namespace ashlar::dsl

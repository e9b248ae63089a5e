// Two plans of a contraction for any GPU with work-groups and local memory: a tile per work-group, and k dealt over the
// threads of a work-group. contraction_cuda.h and contraction_opencl.h choose their sizes and when they apply.
#pragma once

#include "schedules/contraction.h"
#include "schedules/lowering/group_shape.h"

namespace ashlar::dsl {

/// A work-group computes `columns` × `rows` results, each thread `thread_columns` × `thread_rows` of them, `depth`
/// terms at a time. Local memory: 4 (columns · rows + depth · (columns + rows + 8)) bytes.
struct WorkgroupTile {
  int columns, rows, thread_columns, thread_rows, depth, unroll;
  int threads() const { return columns * rows / (thread_columns * thread_rows); }
};

/// Whether a result has enough tiles: under so many of 64 × 64 a device is better filled by dealing k over threads of
/// small tiles, of `small` × `small`; and under so many of these, or where few of a tile are results (of 71 products of
/// 16 bits with at most 2²² flops, H100: one that the other way was quicker for, by 1.02).
inline Expr has_many_tiles(const ContractionProblem& p, const WorkgroupTile& tile, int small) {
  constexpr int kLeastTiles = 24, kLeastSmallTiles = 500, kLeastOfTile = 3;
  const Expr tiles = tiles_of_result(p, tile.rows, tile.columns), small_tiles = tiles_of_result(p, small, small);
  return tiles >= kLeastTiles && small_tiles >= kLeastSmallTiles && small_tiles / kLeastOfTile >= tiles;
}

/// How the tile plan fills local memory: by aligned quads along one dimension of each operand, or element by element.
enum class TileLoads { quads, single };

// product(n, m, b) = Σ_c chunk(n, m, c, b),  chunk(n, m, c, b) = Σ_{k in chunk c} left(k, m) · right(n, k)
// A chunk's sum is held in a thread's registers; the running totals live in local memory and are read and written once
// per chunk, because Halide 21 by itself can't keep a work-group's registers alive over the loop that refills local
// memory (contraction_pipelined.h can, on CUDA).
inline ContractionPlan tile_plan(const ContractionProblem& p, const WorkgroupTile& tile, TileLoads loads,
                                 const std::string& prefix, std::vector<Expr> when) {
  using Halide::Func;
  using Halide::Stage;
  using Halide::TailStrategy;
  const Var n = p.column, m = p.row, b = p.batch;
  Var k("k"), chunk_index("chunk_index");
  Func left(prefix + "_left"), right(prefix + "_right"), chunk(prefix + "_chunk"), product(prefix);
  const Expr zero = 0.0f;
  const QuadLoads can = quad_loads(p);

  // Beyond k the terms are zero, whatever lies in memory there; beyond the rows and columns results are never stored.
  // A quad lies wholly inside or wholly outside: outside, the first one is read instead. Of operands of another layout
  // they are read as well, and left out, so that they have to lie in memory of fewer than four elements, too.
  const auto in = ContractionProblem::inside;
  const auto quad = [](const Expr& i, const Expr& extent) {
    const Expr first = Halide::unsafe_promise_clamped(Halide::select(i / 4 < extent / 4, i / 4, 0), 0, extent / 4 - 1);
    return Halide::select(extent >= 4, first * 4 + i % 4, 0);
  };
  const auto left_single = select(k < p.inner, p.left_at(in(k, p.inner), in(m, p.rows), b), zero);
  const auto right_single = select(k < p.inner, p.right_at(in(n, p.columns), in(k, p.inner), b), zero);
  if (loads == TileLoads::quads) {
    left(k, m, b) = select(
        can.left_along_k, select(k / 4 < p.inner / 4, p.left_at(quad(k, p.inner), in(m, p.rows), b), zero),
        can.left_along_rows, select(k < p.inner, p.left_at(in(k, p.inner), quad(m, p.rows), b), zero), left_single);
    right(n, k, b) =
        select(can.right_along_k, select(k / 4 < p.inner / 4, p.right_at(in(n, p.columns), quad(k, p.inner), b), zero),
               can.right_along_columns, select(k < p.inner, p.right_at(quad(n, p.columns), in(k, p.inner), b), zero),
               right_single);
  } else {
    left(k, m, b) = left_single;
    right(n, k, b) = right_single;
  }
  const Halide::RDom k_inner(0, tile.depth, "k_inner"), chunks(0, (p.inner + tile.depth - 1) / tile.depth, "chunks");
  chunk(n, m, chunk_index, b) = zero;
  chunk(n, m, chunk_index, b) +=
      left(chunk_index * tile.depth + k_inner, m, b) * right(n, chunk_index * tile.depth + k_inner, b);
  product(n, m, b) = zero;
  product(n, m, b) += chunk(n, m, chunks, b);

  const int threads_x = tile.columns / tile.thread_columns, threads_y = tile.rows / tile.thread_rows;
  const Var block_x(prefix + "_block_x"), block_y(prefix + "_block_y");

  ContractionPlan plan;
  plan.name = prefix;
  plan.when = std::move(when);
  plan.product = product;
  // Neighbouring threads store neighbouring columns. Blocks along rows are the inner grid dimension, which may be
  // longest.
  plan.schedule_output = [=](Stage out) {
    Var x("x"), y("y"), thread_x("thread_x"), thread_y("thread_y");
    out.split(n, block_x, x, tile.columns, TailStrategy::GuardWithIf)
        .split(m, block_y, y, tile.rows, TailStrategy::GuardWithIf)
        .split(x, x, thread_x, threads_x)
        .split(y, y, thread_y, threads_y)
        .reorder(x, y, thread_x, thread_y, block_y, block_x, b)
        .gpu_blocks(block_y, block_x, b);
    GroupShape{}.over_threads(out, thread_x, thread_y);
  };
  plan.schedule_stages = [=](Func out) {
    Var x("x"), y("y"), thread_x("thread_x"), thread_y("thread_y"), lane("lane"), item("item"), k_low("k_low"),
        low("low");
    const GroupShape group;
    Func totals = product, sums = chunk, left_tile = left, right_tile = right;
    const auto over_threads = [&](Stage s) {
      s.split(n, thread_x, x, tile.thread_columns).split(m, thread_y, y, tile.thread_rows);
    };
    totals.compute_at(out, block_y).store_in(Halide::MemoryType::GPUShared);
    totals.bound_extent(n, tile.columns).bound_extent(m, tile.rows).bound_extent(b, 1);
    over_threads(totals);
    totals.reorder(x, y, thread_x, thread_y, b).vectorize(x).unroll(y);
    group.over_threads(totals, thread_x, thread_y);
    over_threads(totals.update());
    totals.update().reorder(x, y, thread_x, thread_y, chunks, b).vectorize(x).unroll(y);

    sums.compute_at(totals, group.over_threads(totals.update(), thread_x, thread_y))
        .store_in(Halide::MemoryType::Register);
    sums.bound_extent(n, tile.thread_columns).bound_extent(m, tile.thread_rows).vectorize(n).unroll(m);
    sums.update().reorder(n, m, k_inner, chunk_index, b).vectorize(n).unroll(m).unroll(k_inner, tile.unroll);

    // The left tile is held transposed, so that a thread finds its rows next to each other; a padding of four floats
    // spreads the writes of a transposing copy over the memory banks and keeps quads aligned.
    left_tile.compute_at(totals, chunks).store_in(Halide::MemoryType::GPUShared).reorder_storage(m, k, b);
    left_tile.align_storage(m, tile.rows + 4).bound_extent(k, tile.depth).bound_extent(m, tile.rows).bound_extent(b, 1);
    right_tile.compute_at(totals, chunks).store_in(Halide::MemoryType::GPUShared);
    right_tile.align_storage(n, tile.columns + 4)
        .bound_extent(k, tile.depth)
        .bound_extent(n, tile.columns)
        .bound_extent(b, 1);

    const auto deal = [&](Stage s) {
      s.split(item, item, thread_x, threads_x * threads_y).split(thread_x, thread_y, thread_x, threads_x);
    };
    const auto copy_quads = [&](Stage s, const Var& inner, const Var& outer) {
      s.split(inner, inner, lane, 4).vectorize(lane).fuse(inner, outer, item);
      deal(s);
      s.reorder(lane, item, thread_x, thread_y).unroll(item);
      group.over_threads(s, thread_x, thread_y);
    };
    const auto copy_quads_transposing = [&](Stage s, const Var& along) {  // 2 quads of k × 16 per 32 threads
      s.split(k, k, lane, 4).vectorize(lane).split(k, k, k_low, 2).split(along, along, low, 16);
      s.fuse(k_low, low, item).fuse(item, k, item).fuse(item, along, item);
      deal(s);
      s.reorder(lane, item, thread_x, thread_y).unroll(item);
      group.over_threads(s, thread_x, thread_y);
    };
    const auto copy_single = [&](Stage s, const Var& inner, const Var& outer) {
      s.fuse(inner, outer, item);
      deal(s);
      s.reorder(item, thread_x, thread_y).unroll(item);
      group.over_threads(s, thread_x, thread_y);
    };
    if (loads == TileLoads::quads) {
      copy_quads_transposing(left_tile.specialize(can.left_along_k && p.inner >= 4), m);
      copy_quads(left_tile.specialize(can.left_along_rows && p.rows >= 4), m, k);
      copy_quads(right_tile.specialize(can.right_along_columns && p.columns >= 4), n, k);
      copy_quads_transposing(right_tile.specialize(can.right_along_k && p.inner >= 4), n);
    } else {
      copy_single(left_tile.specialize(p.left.row_stride == 1), m, k);
      copy_single(right_tile.specialize(p.right.column_stride == 1), n, k);
    }
    copy_single(left_tile, k, m);
    copy_single(right_tile, k, n);
  };
  return plan;
}

/// A work-group computes `columns` × `rows` results, each thread 2 × 2 over one of `parts` stretches of k.
struct WorkgroupSplit {
  int columns, rows, parts, unroll;
};

// product(n, m, b) = Σ_s part(n, m, s, b),  part(n, m, s, b) = Σ_{k in stretch s} left(k, m) · right(n, k)
// For results too few to fill the device: the sum itself is parallel. Operands come through the caches.
inline ContractionPlan split_plan(const ContractionProblem& p, const WorkgroupSplit& split, const std::string& prefix) {
  using Halide::Func;
  using Halide::Stage;
  using Halide::TailStrategy;
  const Var n = p.column, m = p.row, b = p.batch;
  Var s("s");
  Func sums(prefix + "_sums"), part(prefix + "_part"), product(prefix);
  const Expr length = (p.inner + split.parts - 1) / split.parts;
  const Halide::RDom r(0, length, "r");
  const Expr k = s * length + r;
  const auto in = ContractionProblem::inside;
  sums(n, m, s, b) = 0.0f;
  sums(n, m, s, b) += select(
      k < p.inner, p.left_at(in(k, p.inner), in(m, p.rows), b) * p.right_at(in(n, p.columns), in(k, p.inner), b), 0.0f);
  part(n, m, s, b) = sums(n, m, s, b);
  Expr total = part(n, m, 0, b);
  for (int i = 1; i < split.parts; i++) total = total + part(n, m, i, b);
  product(n, m, b) = total;

  constexpr int kPerThread = 2;
  const int threads_x = split.columns / kPerThread, threads_y = split.rows / kPerThread;
  const Var block_x(prefix + "_block_x"), block_y(prefix + "_block_y");

  ContractionPlan plan;
  plan.name = prefix;
  plan.product = product;
  plan.schedule_output = [=](Stage out) {
    Var x("x"), y("y"), thread_x("thread_x"), thread_y("thread_y");
    out.split(n, block_x, x, split.columns, TailStrategy::GuardWithIf)
        .split(m, block_y, y, split.rows, TailStrategy::GuardWithIf)
        .split(x, x, thread_x, threads_x)
        .split(y, y, thread_y, threads_y)
        .reorder(x, y, thread_x, thread_y, block_y, block_x, b)
        .gpu_threads(thread_x, thread_y)
        .gpu_blocks(block_y, block_x, b);
  };
  plan.schedule_stages = [=](Func out) {
    Var x("x"), y("y"), thread_x("thread_x"), thread_y("thread_y");
    Func parts = part, accumulators = sums;
    parts.compute_at(out, block_y).store_in(Halide::MemoryType::GPUShared);
    parts.bound_extent(n, split.columns).bound_extent(m, split.rows).bound_extent(s, split.parts).bound_extent(b, 1);
    parts.split(n, thread_x, x, kPerThread).split(m, thread_y, y, kPerThread).reorder(x, y, thread_x, thread_y, s);
    parts.unroll(x).unroll(y).gpu_threads(thread_x, thread_y, s);
    accumulators.compute_at(parts, thread_x).store_in(Halide::MemoryType::Register);
    accumulators.bound_extent(n, kPerThread).bound_extent(m, kPerThread).bound_extent(s, 1).bound_extent(b, 1);
    accumulators.unroll(n).unroll(m);
    accumulators.update().reorder(n, m, r, s, b).unroll(n).unroll(m).unroll(r, split.unroll, TailStrategy::GuardWithIf);
  };
  return plan;
}

}  // namespace ashlar::dsl

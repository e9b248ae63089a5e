// Plans of a contraction for GPUs where a side is short: threads in one line over batch, rows and columns, so that no
// size leaves most of a tile empty. Operands come through the caches. contraction_cuda.h chooses the sizes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/contraction_model.h"

namespace ashlar::dsl {

/// A thread sums `rows` × `columns` results, `unroll` terms in a turn; a block has `threads`, a power of two. Where k
/// is dealt, as many threads of a block share a tile's terms as it takes to fill the device, else each has all of them.
struct ThreadTile {
  int rows, columns, unroll, threads = 256;
  bool is_k_dealt = false;
  int results() const { return rows * columns; }
};

/// How the threads of all blocks stand: tiles in one line, columns before rows before batches. A thread's rows and
/// columns lie as far apart as there are tiles along them, so that neighbours read and write neighbours.
struct ThreadLine {
  Expr tiles_n, tiles_m, tiles;
  Expr along_k;             ///< whether the larger operand lies along k: neighbours then share a tile, and read along k
  Expr slices, log_slices;  ///< threads that share a tile, a power of two

  ThreadLine(const ContractionProblem& p, const ThreadTile& tile)
      : tiles_n((p.columns + tile.columns - 1) / tile.columns),
        tiles_m((p.rows + tile.rows - 1) / tile.rows),
        tiles(tiles_n * tiles_m * p.batches),
        along_k(select(p.columns >= p.rows, p.right.row_stride == 1 && p.columns > 1, p.left.column_stride == 1)),
        slices(1),
        log_slices(0) {
    if (!tile.is_k_dealt) return;
    // Threads for 132 multiprocessors, and enough of them along k that memory is read in whole sectors, of two terms
    // at least each.
    constexpr int kFill = 132 * 1024, kAlongK = 16, kLeastTerms = 2;
    const Expr wanted = min(max(kFill / tiles, select(along_k, kAlongK, 1)), p.inner / kLeastTerms);
    for (int log = 1; 2 << log <= tile.threads; log++) {
      slices = select(wanted >= (1 << log), 1 << log, slices);
      log_slices = select(wanted >= (1 << log), log, log_slices);
    }
  }
};

/// What the model counts of it. A stage is a turn, or a step of adding up what slices have. The more lines of memory
/// the threads of a warp read at once, the longer a turn takes of a multiprocessor.
inline ModelledWork work_of_threads(const ContractionProblem& p, const ThreadTile& tile) {
  constexpr float kWarp = 32;  // lanes; and elements of a line
  const ThreadLine line(p, tile);
  const auto real = [](const Expr& e) { return Halide::cast<float>(e); };
  const Expr slices = real(line.slices), rows = real(p.rows), columns = real(p.columns), inner = real(p.inner);
  const Expr places = static_cast<float>(tile.threads) / slices;
  const Expr lanes_k = select(line.along_k, min(slices, kWarp), max(kWarp / places, 1.0f)),
             lanes_n = min(kWarp / lanes_k, real(line.tiles_n)),
             lanes_m = max(min(kWarp / (lanes_k * lanes_n), real(line.tiles_m * p.batches)), 1.0f);
  const auto lines = [&](const Expr& lanes, const Expr& apart) { return max(lanes * min(apart / kWarp, 1.0f), 1.0f); };
  const Expr of_left = select(p.left.column_stride == 1, lines(lanes_m, inner), lines(lanes_k, rows)),
             of_right = select(p.right.row_stride == 1, lines(lanes_n, inner), lines(lanes_k, columns));
  const auto of_tile = [](int n) { return static_cast<float>(n); };
  Expr stages = Halide::ceil(inner / (slices * of_tile(tile.unroll)));
  if (tile.is_k_dealt) stages = stages + Halide::ceil(of_tile(tile.results()) / slices);
  return {Halide::ceil(real(line.tiles) / places), stages,
          (of_left * of_tile(tile.rows) + of_right * of_tile(tile.columns)) / of_tile(tile.rows + tile.columns)};
}

// y[b,m,n] = f(Σ_s part(n, m, s, b)),  part(n, m, s, b) = Σ_{k mod slices = s} left(k, m) · right(n, k)
// Whole turns of all slices need no guard; what is left of k is one turn more, with zeros beyond the last term.
inline ContractionPlan thread_plan(const ContractionProblem& p, const ThreadTile& tile, const std::string& prefix) {
  using Halide::Func;
  using Halide::MemoryType;
  using Halide::RDom;
  using Halide::Stage;
  const ThreadLine line(p, tile);
  const int results = tile.results();
  const Expr slices = line.slices, log_places = std::countr_zero(static_cast<unsigned>(tile.threads)) - line.log_slices,
             places = Expr(1) << log_places;  // tiles of a block
  const auto promised = ContractionProblem::promised;

  struct Place {
    Expr tile, first_column, first_row, batch;
  };
  const auto place_of = [&](const Expr& block, const Expr& place) {
    const Expr at = block * places + place, inside = Halide::min(at, line.tiles - 1);
    const Expr row = inside / line.tiles_n, batch = row / line.tiles_m;  // remainders would be divisions again
    return Place{at, inside - row * line.tiles_n, row - batch * line.tiles_m, promised(batch, p.batches)};
  };
  const auto column_of = [&](const Place& at, const Expr& j) { return at.first_column + j * line.tiles_n; };
  const auto row_of = [&](const Place& at, const Expr& i) { return at.first_row + i * line.tiles_m; };

  Var j("j"), i("i"), t("t"), block("block"), e("e"), step("step"), u("u"), turn("turn");
  Func left(prefix + "_left"), right(prefix + "_right"), last_left(prefix + "_last_left"),
      last_right(prefix + "_last_right"), sums(prefix + "_sums"), part(prefix + "_part"), total(prefix + "_total");
  const Expr slice = select(line.along_k, t & (slices - 1), t >> log_places),
             place_of_thread = select(line.along_k, t >> line.log_slices, t & (places - 1));
  const Place own = place_of(block, place_of_thread);
  const auto left_of = [&](const Expr& k) {
    const Expr row = promised(Halide::min(row_of(own, i), p.rows - 1), p.rows);
    return p.left_at(promised(k, p.inner), row, own.batch);
  };
  const auto right_of = [&](const Expr& k) {
    const Expr column = promised(Halide::min(column_of(own, j), p.columns - 1), p.columns);
    return p.right_at(column, promised(k, p.inner), own.batch);
  };
  const Expr turns = (p.inner / tile.unroll) >> line.log_slices, done = (turns * tile.unroll) << line.log_slices;
  const RDom whole(0, tile.unroll, 0, turns, "whole");
  const RDom rest(0, tile.unroll, 0, select(done < p.inner, 1, 0), "rest");
  const Expr term = ((turn * tile.unroll + u) << line.log_slices) + slice;
  left(u, i, turn, t, block) = left_of(term);
  right(u, j, turn, t, block) = right_of(term);
  sums(j, i, t, block) = 0.0f;
  sums(j, i, t, block) += left(whole.x, i, whole.y, t, block) * right(whole.x, j, whole.y, t, block);
  const Expr last = term + done, last_inside = Halide::min(last, p.inner - 1);
  last_left(u, i, turn, t, block) = select(last < p.inner, left_of(last_inside), 0.0f);
  last_right(u, j, turn, t, block) = select(last < p.inner, right_of(last_inside), 0.0f);
  sums(j, i, t, block) += last_left(rest.x, i, rest.y, t, block) * last_right(rest.x, j, rest.y, t, block);

  ContractionPlan plan;
  plan.name = prefix;
  const auto scatter = [&](const Place& at, const Expr& of_i, const Expr& of_j, const Expr& sum, RDom& r) {
    r.where(at.tile < line.tiles);
    r.where(column_of(at, of_j) < p.columns);
    r.where(row_of(at, of_i) < p.rows);
    plan.scattered = {sum, promised(column_of(at, of_j), p.columns), promised(row_of(at, of_i), p.rows), at.batch};
  };
  const auto in_registers = [=](Func f) {
    f.store_in(MemoryType::Register);
    f.bound_extent(j, tile.columns).bound_extent(i, tile.rows).bound_extent(t, 1).bound_extent(block, 1);
    f.unroll(j).unroll(i);
    f.update(0).reorder({j, i, whole.x, t, block, whole.y}).unroll(j).unroll(i).unroll(whole.x);
    f.update(1).reorder({j, i, rest.x, t, block, rest.y}).unroll(j).unroll(i).unroll(rest.x);
    // What one turn loads is in flight at once.
    const auto load = [&](Func operand, const Var& along, int count, const Halide::RVar& each_turn) {
      operand.compute_at(f, each_turn).store_in(MemoryType::Register);
      operand.bound_extent(u, tile.unroll).bound_extent(along, count).bound_extent(turn, 1);
      operand.bound_extent(t, 1).bound_extent(block, 1).unroll(u).unroll(along);
    };
    load(left, i, tile.rows, whole.y);
    load(right, j, tile.columns, whole.y);
    load(last_left, i, tile.rows, rest.y);
    load(last_right, j, tile.columns, rest.y);
  };
  const Expr blocks = (line.tiles + places - 1) >> log_places;

  if (!tile.is_k_dealt) {
    RDom r(0, tile.columns, 0, tile.rows, 0, tile.threads, 0, blocks, "r");
    scatter(place_of(r.w, r.z), r.y, r.x, sums(r.x, r.y, r.z, r.w), r);
    plan.schedule_output = [=](Stage out) {
      out.allow_race_conditions().unroll(r.x).unroll(r.y).gpu_threads(r.z).gpu_blocks(r.w);
    };
    plan.schedule_stages = [=](Func out) {
      Func accumulators = sums;
      accumulators.compute_at(out, r.z);
      in_registers(accumulators);
    };
    return plan;
  }

  part(t, e, block) = sums(e % tile.columns, e / tile.columns, t, block);
  // Neighbouring threads add up neighbouring tiles, or of few tiles neighbouring results of one.
  const auto item_of = [&](const Expr& step, const Expr& thread) { return step * tile.threads + thread; };
  struct Item {
    Expr place, result;
  };
  const auto split_item = [&](const Expr& at) {
    const Expr item = Halide::min(at, results * places - 1);
    return Item{select(line.along_k, item / results, item & (places - 1)),
                select(line.along_k, item % results, item >> log_places)};
  };
  const RDom s(0, slices, "s");
  const Item added = split_item(item_of(step, t));
  const Expr owner = select(line.along_k, (added.place << line.log_slices) + s.x, (s.x << log_places) + added.place);
  total(step, t, block) = 0.0f;
  total(step, t, block) += part(promised(owner, tile.threads), promised(added.result, results), block);

  RDom r(0, (results * places + tile.threads - 1) / tile.threads, 0, tile.threads, 0, blocks, "r");
  const Item written = split_item(item_of(r.x, r.y));
  r.where(item_of(r.x, r.y) < results * places);
  scatter(place_of(r.z, written.place), written.result / tile.columns, written.result % tile.columns,
          total(r.x, r.y, r.z), r);
  plan.schedule_output = [=](Stage out) { out.allow_race_conditions().gpu_threads(r.y).gpu_blocks(r.z); };
  plan.schedule_stages = [=](Func out) {
    Func accumulators = sums, parts = part, totals = total;
    totals.compute_at(out, r.x).store_in(MemoryType::Register);
    totals.bound_extent(step, 1).bound_extent(t, 1).bound_extent(block, 1);
    parts.compute_at(out, r.z).store_in(MemoryType::GPUShared).align_storage(t, tile.threads + 1);
    parts.bound_extent(t, tile.threads).bound_extent(e, results).bound_extent(block, 1);
    parts.reorder(e, t, block).unroll(e).gpu_threads(t);
    accumulators.compute_at(parts, t);
    in_registers(accumulators);
  };
  return plan;
}

inline constexpr std::array kThreadTiles{
    NamedTile<ThreadTile>{"threads", {.rows = 2, .columns = 4, .unroll = 4}},
    NamedTile<ThreadTile>{"threads_deep", {.rows = 2, .columns = 4, .unroll = 8}},
    NamedTile<ThreadTile>{"dealt", {.rows = 4, .columns = 4, .unroll = 2, .is_k_dealt = true}},
    NamedTile<ThreadTile>{"dealt_row", {.rows = 1, .columns = 4, .unroll = 4, .is_k_dealt = true}},
};

/// Adds those of these names. By order they are never preferred: only the model knows when they pay.
inline void add_thread_plans(const ContractionProblem& p, std::initializer_list<std::string_view> names,
                             std::vector<ContractionPlan>& plans) {
  for (const std::string_view name : names) {
    const ThreadTile& tile = std::ranges::find(kThreadTiles, name, &NamedTile<ThreadTile>::name)->tile;
    plans.push_back(thread_plan(p, tile, std::string(name)));
    plans.back().preferred = Expr(false);
    plans.back().microseconds = modelled_microseconds(p, std::string(name), work_of_threads(p, tile));
  }
}

}  // namespace ashlar::dsl

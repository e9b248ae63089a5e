// Contractions on the CPU that are small or have a short side: plans that pack one operand or a short one only, instead
// of both. A tile of sums stays in registers while all of k passes by.
#pragma once

#include "schedules/contraction_model_cpu.h"
#include "schedules/lowering/load_masked.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl::detail {

/// A product with its sides named by their part in a tile: vectors run along `wide`, single elements of the other
/// operand along `narrow`. Operands are called (k, index, batch).
struct TileSides {
  using Operand = std::function<Expr(const Expr& k, const Expr& index, const Expr& batch)>;
  Operand wide, narrow;
  Expr wide_count, narrow_count;
  Expr wide_stride, narrow_stride;      ///< along the index
  Expr wide_k_stride, narrow_k_stride;  ///< along k
  Var wide_index, narrow_index;
  bool by_rows;  ///< vectors run along the product's rows
};

inline TileSides vectors_of_columns(const ContractionProblem& p) {
  const auto inside = [p](const Expr& b) { return Halide::unsafe_promise_clamped(b, 0, p.batches - 1); };
  return {.wide = [=](const Expr& k, const Expr& n, const Expr& b) { return p.right_at(n, k, inside(b)); },
          .narrow = [=](const Expr& k, const Expr& m, const Expr& b) { return p.left_at(k, m, inside(b)); },
          .wide_count = p.columns,
          .narrow_count = p.rows,
          .wide_stride = p.right.column_stride,
          .narrow_stride = p.left.row_stride,
          .wide_k_stride = p.right.row_stride,
          .narrow_k_stride = p.left.column_stride,
          .wide_index = p.column,
          .narrow_index = p.row,
          .by_rows = false};
}

inline TileSides vectors_of_rows(const ContractionProblem& p) {
  const TileSides s = vectors_of_columns(p);
  return {.wide = s.narrow,
          .narrow = s.wide,
          .wide_count = s.narrow_count,
          .narrow_count = s.wide_count,
          .wide_stride = s.narrow_stride,
          .narrow_stride = s.wide_stride,
          .wide_k_stride = s.narrow_k_stride,
          .narrow_k_stride = s.wide_k_stride,
          .wide_index = s.narrow_index,
          .narrow_index = s.wide_index,
          .by_rows = true};
}

// The loops of an output in tiles of wide × narrow: a run of tiles along the narrow side passes each tile of the wide
// one, or the other way round.
struct TileLoops {
  CpuTile tile;
  bool unrolled = false;  ///< what becomes of the sums stands once for each of them, which then never leave registers
  bool along_wide = false;
  Var wide_tile{"wide_loop"}, narrow_tile{"narrow_loop"}, product_in_task{"product_in_task"};

  /// Whether the tile that begins there has any result: a task's last tiles and products, which its share of the loops
  /// goes on to, may have none.
  static Expr has_results(const ContractionProblem& p, const TileSides& s, const Expr& wide, const Expr& narrow) {
    return wide < s.wide_count && narrow < s.narrow_count && p.batch < p.batches;
  }

  /// Tiles of a run: a long one, since what is packed of the wide side is packed for each run.
  Expr run(const TileSides& s) const {
    constexpr int kRuns = 16, kLeastElements = 256;
    const Expr wide_tiles = rounded_up(s.wide_count, tile.wide), narrow_tiles = rounded_up(s.narrow_count, tile.narrow);
    return Halide::clamp(narrow_tiles * min(wide_tiles, kRuns) / kRuns, min(narrow_tiles, kLeastElements / tile.narrow),
                         narrow_tiles);
  }
  Expr runs(const TileSides& s) const {
    const Expr length = run(s);
    return (rounded_up(s.narrow_count, tile.narrow) + length - 1) / length;
  }

  // Tasks have a few hundred thousand multiplications, some microseconds, and there are some tens of them, by the shape
  // alone.
  void operator()(Halide::Stage out, const ContractionProblem& p, const TileSides& s) const {
    using Halide::TailStrategy;
    constexpr int kWork = 1 << 18, kMostTasks = 64, kMostProducts = 1 << 10;
    const Expr wide_tiles = rounded_up(s.wide_count, tile.wide), narrow_tiles = rounded_up(s.narrow_count, tile.narrow);
    const Expr tiles_of_task = max(1, kWork / (max(1, min(p.inner, kWork)) * (tile.wide * tile.narrow)));
    const Expr narrow_side =
        along_wide ? Halide::clamp(tiles_of_task / wide_tiles, rounded_up(narrow_tiles, kMostTasks), narrow_tiles)
                   : run(s);
    const Expr side = Halide::clamp(along_wide ? tiles_of_task : tiles_of_task / narrow_side,
                                    rounded_up(wide_tiles, kMostTasks), wide_tiles);
    const Expr products =
        Halide::clamp(tiles_of_task / (min(wide_tiles, 1 << 10) * min(narrow_tiles, 1 << 10)), 1, kMostProducts);
    Var wide_task("wide_task"), narrow_task("narrow_task"), batch_task("batch_task"), w("w"), q("q");
    out.split(s.wide_index, wide_task, w, side * tile.wide, TailStrategy::GuardWithIf)
        .split(w, wide_tile, w, tile.wide, TailStrategy::GuardWithIf)
        .split(s.narrow_index, narrow_task, q, narrow_side * tile.narrow, TailStrategy::GuardWithIf)
        .split(q, narrow_tile, q, tile.narrow, TailStrategy::GuardWithIf)
        .split(p.batch, batch_task, product_in_task, products, TailStrategy::GuardWithIf);
    const auto [inner, outer] = along_wide ? std::pair(wide_tile, narrow_tile) : std::pair(narrow_tile, wide_tile);
    if (s.by_rows) {
      out.reorder(q, w, inner, outer, narrow_task, wide_task, product_in_task, batch_task);
    } else {
      out.reorder(w, q, inner, outer, narrow_task, wide_task, product_in_task, batch_task);
      out.vectorize(w, tile.lanes, TailStrategy::GuardWithIf);
      if (unrolled) out.unroll(w).unroll(q);
    }
    // Edges are guarded where results are stored, not in a copy of all loops for each: 20 KB in every plan.
    out.fuse(narrow_task, wide_task, narrow_task).parallel(narrow_task).parallel(batch_task).never_partition_all();
  }
};

/// sums(n, m, b) and their update over r as a tile of registers inside `tile_loop`.
inline void keep_in_registers(Halide::Func sums, const TileSides& s, const CpuTile& tile, const Var& batch,
                              const Halide::RVar& r, const Halide::LoopLevel& tile_loop) {
  Var x("x"), vector("vector");
  sums.compute_at(tile_loop).store_in(Halide::MemoryType::Stack);
  sums.reorder_storage(s.wide_index, s.narrow_index, batch).bound_storage(batch, 1);
  for (const auto& [side, extent] : {std::pair(s.wide_index, tile.wide), std::pair(s.narrow_index, tile.narrow)})
    sums.bound_extent(side, extent).bound_storage(side, extent);
  const auto unrolled = [&](Halide::Stage stage, const std::vector<Halide::VarOrRVar>& order) {
    stage.split(s.wide_index, vector, x, tile.lanes, Halide::TailStrategy::RoundUp).reorder(order);
    stage.vectorize(x).unroll(vector).unroll(s.narrow_index);
  };
  unrolled(sums, {x, vector, s.narrow_index, batch});
  unrolled(sums.update(), {x, vector, s.narrow_index, r, batch});
}

// sum(w, q) = Σ_k wide(k, w) narrow(k, q): as direct_plan(), but the wide side's operand, too, is read from where it
// lies, along its vectors: for few tiles of the narrow side, and for short k. Lanes beyond it aren't loaded.
inline ContractionPlan unpacked_plan(const std::string& name, const ContractionProblem& p, const TileSides& s,
                                     const CpuTile& tile) {
  using Halide::Func;
  const Var b = p.batch, n = p.column, m = p.row;
  const Expr w = s.wide_index, q = s.narrow_index;
  Func micro(name + "_micro"), product(name);
  Halide::RDom r(0, p.inner, "r");
  r.where(TileLoops::has_results(p, s, w / tile.wide * tile.wide, q / tile.narrow * tile.narrow));
  micro(n, m, b) = 0.0f;
  micro(n, m, b) += select(w < s.wide_count, s.wide(r, Halide::unsafe_promise_clamped(w, 0, s.wide_count - 1), b), 0) *
                    s.narrow(r, ContractionProblem::inside(q, s.narrow_count), b);
  product(n, m, b) = micro(n, m, b);
  const TileLoops loops{.tile = tile, .unrolled = !s.by_rows, .along_wide = true};
  return {.name = name,
          .when = {s.wide_stride == 1 && p.inner >= 1},
          .product = product,
          .schedule_output = [=](Halide::Stage out) { loops(out, p, s); },
          .schedule_stages =
              [=](Func out) {
                keep_in_registers(micro, s, tile, b, r, {out, loops.wide_tile});
                load_masked(inputs_of(micro));
              },
          .microseconds = modelled_unpacked(p, s.wide_count, s.narrow_count, s.narrow_k_stride == 1, tile, s.by_rows)};
}

// sum(w, q) = Σ_k panel(w mod V, k, w / V) narrow(k, q): vectors of V along the wide side, whose operand is packed into
// a panel for each tile, and elements of the other operand from where they lie. Vectors that lie within the operand are
// packed apart from its rest, so that no lane has a condition. Behind the rest are zeros for lanes that nobody reads:
// whatever lay there may be subnormal, which takes a hundred cycles.
inline ContractionPlan direct_plan(const std::string& name, const ContractionProblem& p, const TileSides& s,
                                   const CpuTile& tile, EpilogueLength epilogue) {
  using Halide::Func;
  using Halide::RDom;
  using Halide::TailStrategy;
  const auto [wide, narrow, lanes] = tile;
  const int vectors = wide / lanes;
  const Var b = p.batch, n = p.column, m = p.row;
  const Expr w = s.wide_index, q = s.narrow_index;
  Var i("i"), v("v"), k("k"), wide_tile("wide_tile");
  Func panel(name + "_panel"), micro(name + "_micro"), product(name);
  const Expr first = (wide_tile * vectors + v) * lanes;
  const auto element = [&](const Expr& lane) {
    return s.wide(Halide::unsafe_promise_clamped(k, 0, p.inner - 1),
                  Halide::unsafe_promise_clamped(first + lane, 0, s.wide_count - 1), b);
  };
  RDom whole(0, lanes, "whole"), rest(0, s.wide_count % lanes, "rest");
  whole.where(first + lanes <= s.wide_count);
  rest.where(first == s.wide_count / lanes * lanes);
  panel(i, k, v, wide_tile, b) = 0.0f;
  panel(whole, k, v, wide_tile, b) = element(whole);
  panel(rest, k, v, wide_tile, b) = element(rest);
  RDom r(0, p.inner, "r");
  r.where(TileLoops::has_results(p, s, w / wide * wide, q / narrow * narrow));
  micro(n, m, b) = 0.0f;
  micro(n, m, b) += panel(w % lanes, r, w % wide / lanes, w / wide, b) *
                    s.narrow(r, ContractionProblem::inside(q, s.narrow_count), b);
  product(n, m, b) = micro(n, m, b);

  const TileLoops loops{tile, !s.by_rows && epilogue != EpilogueLength::long_one};
  return {.name = name,
          .when = {p.inner >= 1},
          .product = product,
          .schedule_output = [=](Halide::Stage out) { loops(out, p, s); },
          .schedule_stages =
              [=](Func out) {
                Func sums = micro, operand = panel;
                Var k_in("k_in");
                keep_in_registers(sums, s, tile, b, r, {out, loops.narrow_tile});
                operand.compute_at(out, loops.wide_tile).bound(i, 0, lanes).bound(v, 0, vectors).vectorize(i);
                Halide::Stage of_whole = operand.update(0).reorder(whole, k, v, wide_tile, b),
                              of_rest = operand.update(1).reorder(rest, k, v, wide_tile, b).never_partition_all();
                of_whole.specialize(s.wide_stride == 1).vectorize(whole);
                of_rest.specialize(s.wide_stride == 1).vectorize(rest, lanes, TailStrategy::Predicate);
                // A line of each of the panel's rows at a time: transposed in registers where there are as many rows.
                for (Halide::Stage* lines : {&of_whole, &of_rest})
                  lines->split(k, k, k_in, lanes, TailStrategy::GuardWithIf);
                of_whole.reorder(k_in, whole, k, v, wide_tile, b).vectorize(k_in).unroll(whole);
                of_rest.reorder(k_in, rest, k, v, wide_tile, b).vectorize(k_in);
              },
          .microseconds = modelled_direct(p, s.wide_count, s.narrow_count, loops.runs(s), s.wide_stride == 1,
                                          s.narrow_k_stride == 1, tile, s.by_rows)};
}

// sum(w, q) = Σ_v part(v, w, q), part(v, w, q) = Σ_c wide(k, w) few(v, c, q), k = min(c·V, K - V) + v: dot products
// over vectors of k. The wide side's operand lies along k; the other one, short, is packed so. The last vector overlaps
// the one before, and what came there already is left out of the sum: a factor of 0 would make NaN of infinities. The
// short side has kFew at a time, or is one alone that lies along k and is read from there.
template <int kFew>
ContractionPlan dots_plan(const std::string& name, const ContractionProblem& p, const TileSides& s, int lanes) {
  using Halide::Func;
  using Halide::RDom;
  using Halide::TailStrategy;
  constexpr bool is_one = kFew == 1;
  const int wide = widest_vectors(lanes) * (is_one ? 2 : 1);
  const Var b = p.batch, n = p.column, m = p.row;
  Var v("v"), i("i"), j("j"), c("c"), wide_tile("wide_tile"), few_tile("few_tile");
  Func few(name + "_operand"), part(name + "_part"), sums(name + "_sums"), product(name);
  const auto element = [&](const Expr& chunk, const Expr& at) {
    return Halide::unsafe_promise_clamped(min(chunk * lanes, p.inner - lanes) + at, 0, p.inner - 1);
  };
  if (!is_one) {
    few(v, j, c, few_tile, b) =
        s.narrow(element(c, v), ContractionProblem::inside(few_tile * kFew + j, s.narrow_count), b);
  }
  const Expr whole = p.inner / lanes, rest = p.inner % lanes;
  RDom r(0, whole, "r");
  r.where(TileLoops::has_results(p, s, wide_tile * wide, few_tile * kFew));
  const RDom r_rest(whole, min(rest, 1), "r_rest"), r_lane(0, lanes, "r_lane");
  const auto terms = [&](const Expr& chunk) {
    const Expr short_side = is_one ? s.narrow(element(chunk, v), 0, b) : Expr(few(v, j, chunk, few_tile, b));
    return s.wide(element(chunk, v), ContractionProblem::inside(wide_tile * wide + i, s.wide_count), b) * short_side;
  };
  part(v, i, j, wide_tile, few_tile, b) = 0.0f;
  part(v, i, j, wide_tile, few_tile, b) += terms(r);
  part(v, i, j, wide_tile, few_tile, b) += select(v < lanes - rest, 0.0f, terms(r_rest));
  sums(i, j, wide_tile, few_tile, b) = 0.0f;
  sums(i, j, wide_tile, few_tile, b) += part(r_lane, i, j, wide_tile, few_tile, b);
  const Expr w = s.wide_index, q = s.narrow_index;
  product(n, m, b) = sums(w % wide, q % kFew, w / wide, q / kFew, b);

  const CpuTile tile{wide, kFew, lanes};
  const TileLoops loops{{wide, kFew, std::min(wide, lanes)}};
  return {.name = name,
          .when = {s.wide_k_stride == 1 && s.wide_stride != 1 && p.inner >= lanes &&
                   (!is_one || (s.narrow_count == 1 && s.narrow_k_stride == 1))},
          .product = product,
          .schedule_output = [=](Halide::Stage out) { loops(out, p, s); },
          .schedule_stages =
              [=](Func out) {
                Func operand = few, parts = part, total = sums;
                for (Func f : {parts, total}) {
                  f.compute_at(out, loops.narrow_tile).store_in(Halide::MemoryType::Stack);
                  f.bound(i, 0, wide).bound(j, 0, kFew);
                  f.bound_storage(wide_tile, 1).bound_storage(few_tile, 1).bound_storage(b, 1);
                }
                parts.bound(v, 0, lanes).vectorize(v).unroll(i).unroll(j);
                parts.update(0).reorder(v, i, j, r, wide_tile, few_tile, b).vectorize(v).unroll(i).unroll(j);
                parts.update(1).reorder(v, i, j, r_rest, wide_tile, few_tile, b).vectorize(v).unroll(i).unroll(j);
                total.unroll(i).unroll(j);
                total.update().reorder(r_lane, i, j).atomic().vectorize(r_lane).unroll(i).unroll(j);
                if (is_one) return;
                operand.compute_at(out, loops.product_in_task).bound(v, 0, lanes).bound(j, 0, kFew);
                operand.reorder(v, j, c, few_tile, b);
                operand.specialize(s.narrow_k_stride == 1).vectorize(v);
              },
          .microseconds = modelled_dots(p, s.wide_count, s.narrow_count, s.narrow_k_stride == 1, tile)};
}

}  // namespace ashlar::dsl::detail

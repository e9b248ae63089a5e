// Contractions on the CPU that are small or have a short side: plans that pack one operand or a short one only, instead
// of both. A tile of sums stays in registers while all of k passes by.
#pragma once

#include "schedules/contraction_model_cpu.h"
#include "schedules/lowering/load_masked.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/steps.h"
#include "schedules/lowering/write_ahead.h"

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
  int terms_beside;       ///< how many terms of each result what comes after the product takes as long as
  int least_run = 96;     ///< elements of the narrow side for which packing a tile of the wide one pays
  bool unrolled = false;  ///< what becomes of the sums stands once for each of them, which then never leave registers
  bool along_wide = false;
  Var wide_tile{"wide_loop"}, narrow_tile{"narrow_loop"}, product_in_task{"product_in_task"};

  /// Whether the tile that begins there has any result: a task's last tiles and products, which its share of the loops
  /// goes on to, may have none.
  static Expr has_results(const ContractionProblem& p, const TileSides& s, const Expr& wide, const Expr& narrow) {
    return wide < s.wide_count && narrow < s.narrow_count && p.batch < p.batches;
  }

  /// What a task has: tiles along both sides, and products.
  struct Share {
    Expr wide, narrow, products;
  };
  // Tasks have a hundred thousand multiplications, some microseconds, and there are some tens of them, by the shape
  // alone; they are alike, and where there are any an even number. Not any formula serves: Halide has to see that a
  // task begins at a whole tile.
  Share share(const ContractionProblem& p, const TileSides& s) const {
    constexpr int kWork = 1 << 17, kMostTasks = 64, kRuns = 16, kMostProducts = 1 << 10;
    const auto parts = [](const Expr& of, const Expr& each) { return (of + each - 1) / each; };
    const auto even_share = [&](const Expr& of, const Expr& share) {
      return Halide::clamp(of / max(1, of / share / 2 * 2), parts(of, kMostTasks), of);
    };
    const Expr wide_tiles = rounded_up(s.wide_count, tile.wide), narrow_tiles = rounded_up(s.narrow_count, tile.narrow);
    const Expr tiles_of_task =
        max(1, kWork / ((max(1, min(p.inner, kWork)) + terms_beside) * (tile.wide * tile.narrow)));
    // What is packed of the wide side is packed for each run along the narrow one: as few runs as give enough tasks.
    const Expr run = max(max(tiles_of_task, least_run / tile.narrow), narrow_tiles * min(wide_tiles, kRuns) / kRuns);
    const Expr narrow_side = even_share(narrow_tiles, along_wide ? max(1, tiles_of_task / wide_tiles) : run);
    // Short rows of results that are soon worked out are a task's as a whole, which still has the lines that two tiles
    // share in a cache; where that leaves several tasks.
    constexpr int kFewTiles = 4, kFewTerms = 128;
    const Expr of_row =
        select(wide_tiles <= kFewTiles && p.inner <= kFewTerms && s.narrow_count >= 2 * least_run, wide_tiles, 1);
    const Expr wide_side =
        even_share(wide_tiles, along_wide ? tiles_of_task : max(of_row, max(1, tiles_of_task / narrow_tiles)));
    const Expr products =
        Halide::clamp(tiles_of_task / (min(wide_tiles, 1 << 10) * min(narrow_tiles, 1 << 10)), 1, kMostProducts);
    return {wide_side, narrow_side, Halide::clamp(p.batches / max(1, p.batches / products / 2 * 2), 1, kMostProducts)};
  }
  Expr runs(const ContractionProblem& p, const TileSides& s) const {
    const Expr length = share(p, s).narrow;
    return (rounded_up(s.narrow_count, tile.narrow) + length - 1) / length;
  }

  /// Whether a call has several tasks.
  Expr is_shared(const ContractionProblem& p, const TileSides& s) const {
    const Share of_task = share(p, s);
    return p.batches > of_task.products || s.wide_count > of_task.wide * tile.wide ||
           s.narrow_count > of_task.narrow * tile.narrow;
  }

  void operator()(Halide::Stage out, const ContractionProblem& p, const TileSides& s) const {
    using Halide::TailStrategy;
    const Share of_task = share(p, s);
    Var wide_task("wide_task"), narrow_task("narrow_task"), batch_task("batch_task"), w("w"), q("q");
    out.split(s.wide_index, wide_task, w, of_task.wide * tile.wide, TailStrategy::GuardWithIf)
        .split(w, wide_tile, w, tile.wide, TailStrategy::GuardWithIf)
        .split(s.narrow_index, narrow_task, q, of_task.narrow * tile.narrow, TailStrategy::GuardWithIf)
        .split(q, narrow_tile, q, tile.narrow, TailStrategy::GuardWithIf)
        .split(p.batch, batch_task, product_in_task, of_task.products, TailStrategy::GuardWithIf);
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

// wide(k, w) narrow(k, q), 0 beyond the wide side, whose lanes there load_masked() doesn't load.
inline Expr masked_term(const ContractionProblem& p, const TileSides& s, const Expr& k) {
  const Expr w = s.wide_index, q = s.narrow_index;
  return select(w < s.wide_count, s.wide(k, Halide::unsafe_promise_clamped(w, 0, s.wide_count - 1), p.batch), 0) *
         s.narrow(k, ContractionProblem::inside(q, s.narrow_count), p.batch);
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
  micro(n, m, b) += masked_term(p, s, r);
  product(n, m, b) = micro(n, m, b);
  const TileLoops loops{.tile = tile, .terms_beside = 16, .unrolled = !s.by_rows, .along_wide = true};
  return {.name = name,
          .when = {s.wide_stride == 1 && p.inner >= 1},
          .product = product,
          .schedule_output = [=](Halide::Stage out) { loops(out, p, s); },
          .schedule_stages =
              [=](Func out) {
                keep_in_registers(micro, s, tile, b, r, {out, loops.wide_tile});
                write_tile_ahead(micro, out);
                load_masked(inputs_of(micro));
              },
          .microseconds = modelled_unpacked(p, s.wide_count, s.narrow_count, s.narrow_k_stride, tile, s.by_rows,
                                            loops.is_shared(p, s))};
}

// sum(w, q) = Σ_u part(w, q, u) + the k % U last terms,  part(w, q, u) = Σ_r wide(rU + u, w) narrow(rU + u, q): as
// unpacked_plan(), a vector of one row at a time, of which U terms are added up side by side: alone they would wait for
// each other.
inline ContractionPlan terms_plan(const std::string& name, const ContractionProblem& p, const TileSides& s, int lanes) {
  using Halide::Func;
  constexpr int kBeside = 8;
  const CpuTile tile{lanes, 1, lanes};
  const Var b = p.batch, n = p.column, m = p.row;
  const Expr w = s.wide_index, q = s.narrow_index;
  Var u("u");
  Func part(name + "_part"), product(name);
  const Expr groups = p.inner / kBeside;
  Halide::RDom r(0, groups, "r"), rest(groups * kBeside, p.inner % kBeside, "rest");
  const Expr is_there = TileLoops::has_results(p, s, w / lanes * lanes, q);
  r.where(is_there);
  rest.where(is_there);
  const auto term = [&](const Expr& k) { return masked_term(p, s, Halide::unsafe_promise_clamped(k, 0, p.inner - 1)); };
  part(n, m, u, b) = 0.0f;
  part(n, m, u, b) += term(r * kBeside + u);
  std::vector<Expr> sums;
  for (int i = 0; i < kBeside; i++) sums.emplace_back(part(n, m, i, b));
  for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
    for (size_t i = 0; i < sums.size() / 2; i++) sums[i] = sums[i] + sums[i + sums.size() / 2];
  }
  product(n, m, b) = sums[0];
  product(n, m, b) += term(rest);
  const TileLoops loops{.tile = tile, .terms_beside = 16, .unrolled = true, .along_wide = true};
  return {
      .name = name,
      .when = {s.wide_stride == 1 && p.inner >= 1},
      .product = product,
      .schedule_output = [=](Halide::Stage out) { loops(out, p, s); },
      .schedule_stages =
          [=](Func out) {
            Func parts = part, total = product;
            const Halide::LoopLevel at(out, loops.wide_tile);
            for (Func f : {parts, total}) {
              f.compute_at(at).store_in(Halide::MemoryType::Stack).bound_storage(b, 1);
              f.bound_extent(s.wide_index, lanes).bound_storage(s.wide_index, lanes);
              f.bound_extent(s.narrow_index, 1).bound_storage(s.narrow_index, 1);
              for (Halide::Stage stage : {Halide::Stage(f), f.update()}) {
                Var vector("vector"), x("x");
                stage.split(s.wide_index, vector, x, lanes, Halide::TailStrategy::RoundUp).vectorize(x);
                stage.unroll(vector);
              }
            }
            parts.bound(u, 0, kBeside).unroll(u);
            parts.update().reorder(u, r).unroll(u);
            load_masked(inputs_of(part));
          },
      .microseconds = modelled_terms(p, s.wide_count, s.narrow_count, s.narrow_k_stride, lanes, loops.is_shared(p, s))};
}

// panel(i, k, v, t, b): the wide side's operand, vector v of its t-th tile, packed. Vectors that lie within the operand
// are packed apart from its rest, so that no lane has a condition, in steps of k, where it has one, whose last begins
// within the one before. Behind the rest are zeros for lanes that nobody reads: whatever lay there may be subnormal,
// which takes a hundred cycles.
class Panels {
 public:
  Panels(const std::string& name, const ContractionProblem& p, const TileSides& s, const CpuTile& tile)
      : lanes_(tile.lanes), vectors_(tile.wide / tile.lanes), b_(p.batch), func_(name) {
    const Expr first = (tile_ * vectors_ + v_) * lanes_;
    const auto element = [&](const Expr& lane, const Expr& k) {
      return s.wide(Halide::unsafe_promise_clamped(k, 0, p.inner - 1),
                    Halide::unsafe_promise_clamped(first + lane, 0, s.wide_count - 1), b_);
    };
    const int step = std::min(lanes_, 8);
    const Expr is_short = p.inner < step;
    whole_ = Halide::RDom(0, lanes_, 0, step, 0, select(is_short, 0, rounded_up(p.inner, step)), "whole");
    few_ = Halide::RDom(0, lanes_, 0, select(is_short, p.inner, 0), "few");
    for (Halide::RDom* of_vectors : {&whole_, &few_}) of_vectors->where(first + lanes_ <= s.wide_count);
    rest_ = Halide::RDom(0, s.wide_count % lanes_, "rest");
    rest_.where(first == s.wide_count / lanes_ * lanes_);
    beyond_.where(first + lanes_ > s.wide_count);  // without lanes: no loop for whole vectors
    beyond_.where(first + beyond_ >= s.wide_count);
    const Expr in_step = whole_.y + begin_of_step(whole_.z, step, p.inner);
    func_(i_, k_, v_, tile_, b_) = Halide::undef<float>();
    func_(whole_.x, in_step, v_, tile_, b_) = element(whole_.x, in_step);
    func_(few_.x, few_.y, v_, tile_, b_) = element(few_.x, few_.y);
    func_(rest_, k_, v_, tile_, b_) = element(rest_, k_);
    func_(beyond_, k_, v_, tile_, b_) = 0.0f;
    is_contiguous_ = s.wide_stride == 1;
    is_along_k_ = s.wide_k_stride == 1;
    constexpr int kElementsOfTask = 1 << 13;
    tiles_of_task_ = max(1, kElementsOfTask / (max(p.inner, 1) * tile.wide));
    are_of_one_task_ =
        p.batches == 1 && rounded_up(s.wide_count, tile.wide) <= select(is_contiguous_, kSideBySide, tiles_of_task_);
  }
  /// Whether one thread packs all of them, where they are packed before.
  const Expr& are_of_one_task() const { return are_of_one_task_; }

  Expr operator()(const Expr& lane, const Expr& k, const Expr& v, const Expr& tile, const Expr& b) const {
    return func_(lane, k, v, tile, b);
  }

  /// Where they are made. Before, by all threads, some are made side by side where the operand is contiguous, so that
  /// whole lines are read.
  void schedule(const Halide::LoopLevel& at, PanelsPacked packed) const {
    using Halide::TailStrategy;
    const int beside = packed == PanelsPacked::before ? kSideBySide : 1;
    Halide::Func panels = func_;
    panels.compute_at(at).bound(i_, 0, lanes_).bound(v_, 0, vectors_);
    panels.update(kWhole).allow_race_conditions();  // what is written twice is the same
    schedule_update(kWhole, {whole_.x, whole_.y, whole_.z}, beside);
    schedule_update(kFew, {few_.x, few_.y}, beside);
    schedule_update(kRest, {rest_.x, k_}, beside);
    panels.update(kBeyond).reorder(beyond_.x, k_, v_, tile_, b_).never_partition_all();
    panels.update(kBeyond).vectorize(beyond_.x, lanes_, TailStrategy::Predicate);
  }

 private:
  // `loops`: over lanes, then along k.
  void schedule_update(int update, std::vector<Halide::VarOrRVar> loops, int beside) const {
    using Halide::TailStrategy;
    Halide::Func panels = func_;
    Var group("group"), in_group("in_group");
    Halide::Stage stage = panels.update(update);
    const auto nest = [this](Halide::Stage of, std::vector<Halide::VarOrRVar> inner) {
      inner.insert(inner.end(), {v_, tile_, b_});
      of.reorder(inner);
    };
    const Halide::VarOrRVar lane = loops[0];
    nest(stage, loops);
    stage.never_partition_all();
    Halide::Stage contiguous = stage.specialize(is_contiguous_);
    if (update == kRest)
      contiguous.vectorize(lane, lanes_, TailStrategy::Predicate);
    else
      contiguous.vectorize(lane);
    if (beside > 1) {
      contiguous.split(tile_, group, in_group, beside, TailStrategy::GuardWithIf);
      std::vector<Halide::VarOrRVar> of_group{lane, v_, in_group};
      of_group.insert(of_group.end(), loops.begin() + 1, loops.end());
      of_group.insert(of_group.end(), {group, b_});
      contiguous.reorder(of_group).parallel(group);
    }
    const auto by_tasks = [&](Halide::Stage of) {
      if (beside > 1) of.split(tile_, group, in_group, tiles_of_task_, TailStrategy::GuardWithIf).parallel(group);
    };
    if (update == kWhole) {
      // Lines of as many rows as there are lanes, transposed in registers.
      Halide::Stage along_k = stage.specialize(is_along_k_);
      std::swap(loops[0], loops[1]);
      nest(along_k, loops);
      along_k.vectorize(loops[0]).unroll(lane);
      by_tasks(along_k);
    } else if (update == kFew) {
      stage.vectorize(lane);
    }
    by_tasks(stage);
  }

  static constexpr int kWhole = 0, kFew = 1, kRest = 2, kBeyond = 3;  ///< updates
  static constexpr int kSideBySide = 8;
  int lanes_, vectors_;
  Var b_, i_{"i"}, v_{"v"}, k_{"k"}, tile_{"wide_tile"};
  Halide::RDom whole_, few_, rest_, beyond_{0, lanes_, "beyond"};
  Halide::Func func_;
  Expr is_contiguous_, is_along_k_, tiles_of_task_, are_of_one_task_;
};

// sum(w, q) = Σ_k panel(w mod V, k, w / V) narrow(k, q): vectors of V along the wide side, whose operand is packed into
// a panel for each tile, and elements of the other operand from where they lie. Packed by the task that reads it, a
// panel stays in a cache while the narrow side passes; packed before, by all threads and once, tiles can pass along
// whole rows of results, whose lines are then written one after the other.
inline ContractionPlan direct_plan(const std::string& name, const ContractionProblem& p, const TileSides& s,
                                   const CpuTile& tile, EpilogueLength epilogue,
                                   PanelsPacked packed = PanelsPacked::by_task) {
  using Halide::Func;
  using Halide::RDom;
  const auto [wide, narrow, lanes] = tile;
  const Var b = p.batch, n = p.column, m = p.row;
  const Expr w = s.wide_index, q = s.narrow_index;
  const Panels panel(name + "_panel", p, s, tile);
  Func micro(name + "_micro"), product(name);
  RDom r(0, p.inner, "r");
  r.where(TileLoops::has_results(p, s, w / wide * wide, q / narrow * narrow));
  micro(n, m, b) = 0.0f;
  micro(n, m, b) += panel(w % lanes, r, w % wide / lanes, w / wide, b) *
                    s.narrow(r, ContractionProblem::inside(q, s.narrow_count), b);
  product(n, m, b) = micro(n, m, b);

  const bool is_before = packed == PanelsPacked::before;
  const TileLoops loops{.tile = tile,
                        .terms_beside = 32,
                        .unrolled = !s.by_rows && epilogue != EpilogueLength::long_one,
                        .along_wide = is_before};
  return {.name = name,
          .when = {p.inner >= 1},
          .product = product,
          .schedule_output = [=](Halide::Stage out) { loops(out, p, s); },
          .schedule_stages =
              [=](Func out) {
                keep_in_registers(micro, s, tile, b, r, {out, is_before ? loops.wide_tile : loops.narrow_tile});
                write_tile_ahead(micro, out);
                panel.schedule({out, is_before ? loops.product_in_task : loops.wide_tile}, packed);
              },
          .microseconds = modelled_direct(
              p, s.wide_count, s.narrow_count,
              is_before ? PanelWork{1, packed, panel.are_of_one_task()} : PanelWork{loops.runs(p, s), packed, {}},
              s.wide_stride == 1, s.narrow_k_stride, tile, s.by_rows, epilogue, loops.is_shared(p, s))};
}

// sum(w, q) = Σ_v part(v, w, q), part(v, w, q) = Σ_c wide(k, w) few(v, c, q), k = min(c·V, K - V) + v: dot products
// over vectors of k. The wide side's operand lies along k; the other one, short, lies so too or is packed so. The last
// vector overlaps the one before, and what came there already is left out of the sum: a factor of 0 would make NaN of
// infinities. A tile has whole vectors of results, for what becomes of them, and some of its sums are in registers at a
// time: of kFew elements of the short side, or of one that is all of it.
template <int kFew>
ContractionPlan dots_plan(const std::string& name, const ContractionProblem& p, const TileSides& s, int lanes,
                          ShortSide lies) {
  using Halide::Func;
  using Halide::RDom;
  using Halide::TailStrategy;
  const bool is_packed = lies == ShortSide::packed;
  const int some = widest_vectors(lanes) * (kFew == 1 ? 2 : 1), wide = std::max(lanes, some);
  const Var b = p.batch, n = p.column, m = p.row;
  Var v("v"), i("i"), j("j"), c("c"), wide_tile("wide_tile"), few_tile("few_tile");
  Func few(name + "_operand"), part(name + "_part"), sums(name + "_sums"), product(name);
  const auto element = [&](const Expr& chunk, const Expr& at) {
    return Halide::unsafe_promise_clamped(min(chunk * lanes, p.inner - lanes) + at, 0, p.inner - 1);
  };
  const auto short_side = [&](const Expr& chunk) {
    return s.narrow(element(chunk, v), ContractionProblem::inside(few_tile * kFew + j, s.narrow_count), b);
  };
  if (is_packed) few(v, j, c, few_tile, b) = short_side(c);
  const Expr whole = p.inner / lanes, rest = p.inner % lanes;
  const Expr has_results = TileLoops::has_results(p, s, wide_tile * wide + i / some * some, few_tile * kFew);
  RDom r(0, whole, "r");
  r.where(has_results);
  const RDom r_rest(whole, min(rest, 1), "r_rest");
  const auto terms = [&](const Expr& chunk) {
    return s.wide(element(chunk, v), ContractionProblem::inside(wide_tile * wide + i, s.wide_count), b) *
           (is_packed ? Expr(few(v, j, chunk, few_tile, b)) : short_side(chunk));
  };
  part(v, i, j, wide_tile, few_tile, b) = 0.0f;
  part(v, i, j, wide_tile, few_tile, b) += terms(r);
  part(v, i, j, wide_tile, few_tile, b) += select(v < lanes - rest, 0.0f, terms(r_rest));
  // Halves of each vector are added until four lanes are left, whose sums are the lanes of one vector.
  std::vector<Func> halves{part};
  for (int lanes_left = lanes / 2; lanes_left >= 4; lanes_left /= 2) {
    const Func wider = halves.back();
    Func half(name + "_half");
    half(v, i, j, wide_tile, few_tile, b) =
        wider(v, i, j, wide_tile, few_tile, b) + wider(v + lanes_left, i, j, wide_tile, few_tile, b);
    halves.push_back(half);
  }
  const auto lane = [&](int of) { return halves.back()(of, i, j, wide_tile, few_tile, b); };
  sums(i, j, wide_tile, few_tile, b) = (lane(0) + lane(2)) + (lane(1) + lane(3));
  const Expr w = s.wide_index, q = s.narrow_index;
  product(n, m, b) = sums(w % wide, q % kFew, w / wide, q / kFew, b);

  // That its elements aren't side by side tells the compiler that a dense operand never lies along k.
  const Expr lies_along_k = s.narrow_k_stride == 1 && s.narrow_stride != 1;
  const Expr fits = kFew == 1   ? s.narrow_count == 1 && s.narrow_k_stride == 1
                    : is_packed ? Halide::Internal::const_true()
                                : lies_along_k;
  const CpuTile tile{wide, kFew, lanes};
  const TileLoops loops{.tile = tile, .terms_beside = 128, .least_run = kFew};
  return {.name = name,
          .when = {s.wide_k_stride == 1 && s.wide_stride != 1 && p.inner >= lanes && fits},
          .product = product,
          .schedule_output = [=](Halide::Stage out) { loops(out, p, s); },
          .schedule_stages =
              [=](Func out) {
                Func operand = few, parts = part, total = sums;
                Var group("group"), in_group("in_group");
                total.compute_at(out, loops.narrow_tile).bound(i, 0, wide).bound(j, 0, kFew);
                total.split(i, group, in_group, some, TailStrategy::RoundUp).reorder(in_group, j, group);
                total.vectorize(in_group).unroll(j);
                int lanes_left = lanes;
                for (Func half : halves) {
                  half.compute_at(total, group).bound(v, 0, lanes_left).bound(j, 0, kFew).bound_storage(i, some);
                  half.vectorize(v).unroll(i).unroll(j);
                  lanes_left /= 2;
                }
                for (int update : {0, 1}) parts.update(update).vectorize(v).unroll(i).unroll(j);
                parts.update(0).reorder(v, i, j, r, wide_tile, few_tile, b);
                parts.update(1).reorder(v, i, j, r_rest, wide_tile, few_tile, b);
                std::vector<Func> of_tile = halves;
                of_tile.push_back(total);
                for (Func f : of_tile) {
                  f.store_in(Halide::MemoryType::Stack);
                  f.bound_storage(wide_tile, 1).bound_storage(few_tile, 1).bound_storage(b, 1);
                }
                if (!is_packed) return;
                operand.compute_at(out, loops.product_in_task).bound(v, 0, lanes).bound(j, 0, kFew);
                operand.reorder(v, j, c, few_tile, b);
                operand.specialize(s.narrow_k_stride == 1).vectorize(v);
              },
          .microseconds = modelled_dots(p, s.wide_count, s.narrow_count, lies, tile, loops.is_shared(p, s))};
}

// product(n, m, b) = Σ_k left(k, m, b) · right(n, k, b) of many small products: vectors along b, an element of each of
// as many products. Their elements are read and written one by one, which costs less than tiles that hardly any element
// fills. The last vector begins within the one before.
inline ContractionPlan batched_plan(const ContractionProblem& p, int lanes) {
  using Halide::Func;
  using Halide::TailStrategy;
  const Var n = p.column, m = p.row, b = p.batch;
  const TileSides s = vectors_of_columns(p);
  Func product("batched");
  const Halide::RDom r(0, p.inner, "r");
  product(n, m, b) = 0.0f;
  product(n, m, b) += s.narrow(r, m, b) * s.wide(r, n, b);
  // Some thousand multiplications, by the shape alone.
  constexpr int kWork = 1 << 14, kMostTerms = 1 << 10;
  const Expr terms = min(p.rows * p.columns, kMostTerms) * min(p.inner, kMostTerms);
  const Expr vectors_of_task = Halide::clamp(kWork / (max(terms, 1) * lanes), 1, kWork);
  const Var task("task"), vector("vector"), x("x");
  return {.name = "batched",
          .when = {p.batches >= lanes && p.inner >= 1},
          .product = product,
          .schedule_output =
              [=](Halide::Stage out) {
                out.split(b, vector, x, lanes, TailStrategy::ShiftInwards)
                    .split(vector, task, vector, vectors_of_task, TailStrategy::GuardWithIf)
                    .reorder(x, n, m, vector, task)
                    .vectorize(x)
                    .parallel(task);
              },
          .schedule_stages =
              [=](Func out) {
                Func sums = product;
                sums.compute_at(out, n).store_in(Halide::MemoryType::Stack).vectorize(b, lanes);
                sums.update().reorder(b, n, m, r).vectorize(b, lanes);
              },
          .microseconds = modelled_batched(p, lanes)};
}

}  // namespace ashlar::dsl::detail

// Family: attention, Σ_j weight(i, j) right(j, c), where each weight is made of products Σ_c left(i, c) other(j, c):
// rows i in tiles, columns j in tiles that are gone through one after the other, so that no weight ever lies in memory.
//
//   CPU   a task has a tile of rows; the other operand is packed once for each head. For gradients by one input: the
//         others are scheduled by schedules/attention_cpu.h
//   GPU   a block has a tile of rows; operands come through shared memory, sums and what is made of a thread's own stay
//         in registers (per_thread)
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "dsl/kernel.h"
#include "schedules/lowering/beside.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/per_thread.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tile_coordinates.h"

namespace ashlar::dsl {

/// How many rows and columns a tile has, and the terms of a product that are in shared memory at a time.
struct AttentionTile {
  static constexpr int kThreads = 16;  ///< of a block on a GPU beside each other

  int rows;
  Expr columns;          ///< on a GPU a constant
  int depth = 16;        ///< a multiple of 16 that divides the columns
  int places = 0;        ///< of a row's vector at most, where the rows' vectors stay in shared memory; else 0
  int width = 64;        ///< of a block's results on a GPU
  int thread_rows = 16;  ///< of a block on a GPU, each of which has as many of the tile's rows
  int registers = 0;     ///< of a thread at most, where not 0

  int constant_columns() const { return static_cast<int>(*Halide::Internal::as_const_int(columns)); }

  /// For that many columns in all.
  static AttentionTile for_columns(const Expr& all) {
    if (!on_gpu()) {
      constexpr int kMost = 256, kStep = 32;
      return {.rows = 32, .columns = Halide::min(kMost, (all + kStep - 1) / kStep * kStep)};
    }
    // OpenCL promises 32 KB of local memory.
    const bool is_small = Descriptor::target.has_feature(Halide::Target::OpenCL);
    return {.rows = is_small ? 32 : 64, .columns = is_small ? 32 : 64};
  }

  /// How many of so many columns a thread has: quads of them lie beside each other, those of all threads too.
  static int of_thread(int columns) { return columns / kThreads; }
  static int quad(int columns) { return std::min(4, of_thread(columns)); }
  static bool has_quads(int columns) { return of_thread(columns) > quad(columns); }
  /// Column `value` of thread x of tile x / kThreads, and the other way round.
  static Expr column_of(const Expr& x, int value, int columns) {
    const int beside = quad(columns);
    return x / kThreads * columns + value / beside * (beside * kThreads) + x % kThreads * beside + value % beside;
  }
  static Expr thread_of(const Expr& column, int columns) {
    const int beside = quad(columns);
    return column / columns * kThreads + column % (beside * kThreads) / beside;
  }
  static Expr value_of(const Expr& column, int columns) {
    const int beside = quad(columns);
    return column % columns / (beside * kThreads) * beside + column % beside;
  }

  /// What thread x makes of its columns of so many: values of columns, joined two by two.
  static Expr of_columns(const Expr& x, int columns, const std::function<Expr(const Expr&)>& value,
                         const std::function<Expr(const Expr&, const Expr&)>& joined) {
    Expr all = value(column_of(x, 0, columns));
    for (int k = 1; k < of_thread(columns); k++) all = joined(all, value(column_of(x, k, columns)));
    return all;
  }
  /// That of a thread's values, one for each of its columns of a result, which is the column's.
  Expr of_column(const Expr& column, const std::function<Expr(int)>& value) const {
    Expr chosen = value(0);
    for (int k = 1; k < of_thread(width); k++) {
      chosen = Halide::select(value_of(column, width) == k, value(k), chosen);
    }
    return chosen;
  }
};

/// The index variables that all stages share: row `i` of tile `u`, column `j` of tile `t`, place `c` along a vector,
/// `g` of the heads that share one of the other side, head, batch, thread `x` of those beside each other.
struct AttentionIndex {
  Var c{"c"}, i{"i"}, j{"j"}, t{"t"}, g{"g"}, u{"u"}, h{"h"}, b{"b"}, x{"x"};
};

/// sums(…) += left(…) right(…) over `inner`, then `outer`; `left` has rows i, `right` columns `across`.
struct TiledSum {
  Halide::Func sums;
  Halide::RVar inner, outer;
  Halide::Func left, right;
  Var across;
  bool stages_left;  ///< else it lies in shared memory already
};

/// The stages of such a kernel, in the order in which they need each other.
struct AttentionStages {
  AttentionTile tile;
  AttentionIndex at;
  std::vector<TiledSum> products;          ///< Σ_c left(c, i) right(c, j): what the weights are made of
  std::vector<Halide::Func> own = {};      ///< of (j, i), each element made and read by one thread of a GPU
  std::vector<Halide::Func> near = {};     ///< of (x, i): what thread x of a GPU makes of a row's columns that it has
  std::vector<Halide::Func> reduced = {};  ///< pairs of a reduction of these over x and what keeps its result
  std::vector<Halide::Func> weights;       ///< of (j, i): each a pass over a tile
  TiledSum result;                         ///< Σ_j weight(j, i) right(c, j), added up over all tiles
  std::vector<Halide::RVar> tiles;         ///< the loops over tiles, the innermost first, of `total` where there is one
  /// A running state of the tiles' results, of (x, i), of thread x's columns all; undefined: `result` runs over all.
  Halide::Func total = {};
  std::vector<Halide::Func> beside = {};  ///< outputs that have an element for each row
  Expr usual = {};                        ///< of which calls the first of `own` is compiled for apart
  /// What the last of `own`, else of `weights`, reads, worked out for two columns by two rows at once: of (column and
  /// row of the pair, pair of columns, pair of rows, …). Undefined: nothing.
  Halide::Func in_pairs = {};
};

namespace detail {

inline Halide::Func running(const AttentionStages& s) { return s.total.defined() ? s.total : s.result.sums; }

// One of each but for rows, columns and places.
inline void bound_others(const AttentionStages& s, Halide::Func f) {
  for (const Var& v : {s.at.t, s.at.g, s.at.u, s.at.h, s.at.b}) {
    for (const Var& own : f.args()) {
      if (own.name() == v.name()) f.bound_extent(v, 1);
    }
  }
}

inline bool reads_pairs(const AttentionStages& s, const Halide::Func& weight) {
  return s.in_pairs.defined() && weight.name() == (s.own.empty() ? s.weights : s.own).back().name();
}

/// Computed for so many columns and rows of a weight, and its loops over pairs unrolled; returns that over columns.
inline Var compute_pairs(const AttentionStages& s, const Halide::LoopLevel& level, int columns, int rows) {
  Halide::Func f = s.in_pairs;
  const std::vector<Var> at = f.args();
  f.compute_at(level).bound_extent(at[0], 2).bound_extent(at[1], 2);
  f.bound_extent(at[2], columns / 2).bound_extent(at[3], rows / 2);
  bound_others(s, f);
  f.reorder({at[2], at[0], at[1], at[3]}).unroll(at[0]).unroll(at[1]).unroll(at[3]);
  std::vector<Var> storage{at[0], at[2], at[1], at[3]};  // columns beside each other
  storage.insert(storage.end(), at.begin() + 4, at.end());
  f.reorder_storage(storage);
  return at[2];
}

// Every thread has the state of its rows: what a row has one of is made of the thread's in whose loop it is stored.
inline void compute_beside(const AttentionStages& s, const Halide::Func& out) {
  for (const Halide::Func& other : s.beside) {
    Rewrite of_column;
    of_column.calls[s.total.name()] = [&](std::vector<Expr> at, int value) -> Expr {
      at[0] = AttentionTile::thread_of(Halide::Func(out).args()[0], s.tile.width);
      return value_at(s.total, at, value);
    };
    Expr& definition = values_of(other).at(0);
    definition = of_column(definition);
  }
  compute_rows_beside(out, s.beside);
}

class AttentionOnGpu {
 public:
  explicit AttentionOnGpu(AttentionStages stages)
      : s_(std::move(stages)), columns_(static_cast<int>(*Halide::Internal::as_const_int(s_.tile.columns))) {}

  void schedule(Halide::Func out) {
    const int width = s_.tile.width;
    const std::vector<Var> index = out.args();
    const Var c = index[0], i = index[1];
    Var block_c("block_c"), block_i("block_i");
    compute_beside(s_, out);
    out.split(c, block_c, c, width, Halide::TailStrategy::GuardWithIf)
        .split(i, block_i, i, s_.tile.rows, Halide::TailStrategy::GuardWithIf)
        .fuse(block_i, block_c, block_);
    nest(out, c, i, width, {}, {block_, index[2], index[3]});
    out.gpu_blocks(block_, index[2], index[3]);
    block_level_ = Halide::LoopLevel(out, block_);

    tile_coordinates();
    const Halide::Func all = running(s_);
    if (s_.total.defined()) state(out);
    if (s_.tile.registers > 0) limit_registers(s_.result.sums, s_.tile.registers);
    sum(s_.result, s_.total.defined() ? Halide::LoopLevel(all, s_.tiles[0]) : Halide::LoopLevel(out, block_), width);
    const Halide::LoopLevel tile(all, s_.tiles[0]);
    for (const TiledSum& product : s_.products) sum(product, tile, columns_);
    for (const Halide::Func& value : s_.own) own(value, tile);
    for (const Halide::Func& value : s_.near) near(value, tile);
    for (const Halide::Func& weight : s_.weights) pass(weight, tile);
    for (size_t k = 0; k + 1 < s_.reduced.size(); k += 2) reduction(s_.reduced[k], s_.reduced[k + 1], tile);
    store_beside(s_.beside);
    index_arithmetic();
  }

 private:
  static constexpr int kThreads = AttentionTile::kThreads, kUnrolled = 16;  // terms of a sum
  using Stage = Halide::Stage;
  using Loops = std::vector<Halide::VarOrRVar>;

  // A tile with `columns` over the threads, with loops around a thread's elements and around all.
  void nest(Stage stage, const Var& x, const Var& y, int columns, const Loops& within = {},
            const Loops& around = {}) const {
    Var x1(x.name() + "_of_thread"), y1(y.name() + "_of_thread"), x4 = of_quads(x), in_quads("in_quads");
    const bool has_quads = AttentionTile::has_quads(columns);
    if (has_quads) stage.split(x, x4, in_quads, AttentionTile::quad(columns) * kThreads);
    stage.split(has_quads ? in_quads : x, tx_, x1, AttentionTile::quad(columns));
    stage.split(y, ty_, y1, rows_of_thread());
    Loops order{x1, y1};
    if (has_quads) order.emplace_back(x4);
    order.insert(order.end(), within.begin(), within.end());
    order.insert(order.end(), {tx_, ty_});
    order.insert(order.end(), around.begin(), around.end());
    stage.reorder(order).unroll(x1).unroll(y1).gpu_threads(tx_, ty_);
    if (has_quads) stage.unroll(x4);
  }

  void sum(const TiledSum& s, const Halide::LoopLevel& level, int columns) const {
    Halide::Func sums = s.sums, left = s.left, right = s.right;
    const Var i = s_.at.i, x = s.across;
    constexpr int kQuad = 4;
    sums.compute_at(level).bound_extent(x, columns).bound(i, 0, s_.tile.rows);
    bound_others(s_, sums);
    nest(sums, x, i, columns);
    Halide::RVar step("step"), quad("quad"), term("term");
    Stage update = sums.update();
    update.split(s.inner, step, quad, kUnrolled).split(quad, quad, term, kQuad);
    Loops around{s.outer};
    if (s.sums.name() == running(s_).name()) around.insert(around.end(), s_.tiles.begin(), s_.tiles.end());
    nest(update, x, i, columns, {term, quad, step}, around);
    update.unroll(term).unroll(quad);
    per_thread(sums);
    // What a thread multiplies, read from shared memory as vectors: what lies along the sum four terms at a time.
    const auto in_registers = [&](Halide::Func tile, const Halide::VarOrRVar& at, const Var& along, int extent,
                                  const Var& other, int others) {
      Halide::Func read = tile.in(sums);
      read.compute_at(Halide::LoopLevel(sums, at)).store_in(Halide::MemoryType::Register);
      for (const Var& v : read.args()) {
        read.bound_extent(v, v.name() == along.name() ? extent : v.name() == other.name() ? others : 1);
      }
      Var vector("vector");
      read.split(along, along, vector, std::min(extent, kQuad)).vectorize(vector).unroll(along).unroll(other);
    };
    const bool is_of_columns = x.name() == s_.at.j.name();
    const Var inner = is_of_columns ? s_.at.c : s_.at.j;
    if (s.stages_left) {
      const bool stays = s_.tile.places > 0;
      stage(left, i, s_.tile.rows, true, stays ? s_.tile.places : s_.tile.depth,
            stays ? block_level_ : Halide::LoopLevel(sums, s.outer));
    }
    if (!s.stages_left && lies_along_sum())
      in_registers(left, quad, inner, kQuad, i, rows_of_thread());
    else
      in_registers(left, term, i, rows_of_thread(), inner, 1);
    stage(right, x, columns, is_of_columns, s_.tile.depth, Halide::LoopLevel(sums, s.outer));
    const Halide::VarOrRVar at_right = AttentionTile::has_quads(columns) ? Halide::VarOrRVar(of_quads(x)) : term;
    in_registers(right, at_right, x, AttentionTile::quad(columns), inner, 1);
  }

  static Var of_quads(const Var& x) { return Var(x.name() + "_of_quads"); }

  // A tile in shared memory, its threads' dimension innermost. One that is turned round lies along c in memory: 8 of c
  // × 4 of the other for 32 threads read whole sectors and write to as many banks.
  void stage(Halide::Func tile, const Var& along, int extent, bool is_turned, int depth,
             const Halide::LoopLevel& level) const {
    const Var other = is_turned ? s_.at.c : s_.at.j;
    tile.compute_at(level).store_in(Halide::MemoryType::GPUShared);
    tile.bound_extent(along, extent).bound_extent(other, depth);
    bound_others(s_, tile);
    std::vector<Var> storage{along, other};
    for (const Var& v : tile.args()) {
      if (v.name() != along.name() && v.name() != other.name()) storage.push_back(v);
    }
    tile.reorder_storage(storage).align_storage(along, extent + 4);
    Var item("item"), lane("lane"), low("low"), low_c("low_c");
    if (is_turned) {
      tile.split(other, other, low_c, 8).split(along, along, low, 4).fuse(low_c, low, lane).fuse(other, along, item);
      tile.fuse(lane, item, item);
    } else {
      tile.fuse(along, other, item);
    }
    tile.split(item, item, ty_, kThreads * s_.tile.thread_rows).split(ty_, ty_, tx_, kThreads);
    tile.reorder(item, tx_, ty_).unroll(item).gpu_threads(tx_, ty_);
  }

  // A value for each row and column, in shared memory.
  void pass(Halide::Func f, const Halide::LoopLevel& level) const {
    const Var i = s_.at.i, j = s_.at.j;
    f.compute_at(level).store_in(Halide::MemoryType::GPUShared).bound_extent(j, columns_).bound(i, 0, s_.tile.rows);
    bound_others(s_, f);
    if (lies_along_sum()) {
      f.align_storage(j, columns_ + 4);
    } else {
      std::vector<Var> storage = f.args();
      std::swap(storage[0], storage[1]);
      f.reorder_storage(storage).align_storage(i, s_.tile.rows + 4);
    }
    nest(f, j, i, columns_);
    pairs_of(f);
  }

  // A value for each row and column that a thread keeps.
  void own(Halide::Func f, const Halide::LoopLevel& level) const {
    f.compute_at(level).store_in(Halide::MemoryType::Register).bound_extent(s_.at.j, columns_);
    f.bound(s_.at.i, 0, s_.tile.rows);
    bound_others(s_, f);
    if (s_.usual.defined() && f.name() == s_.own[0].name()) nest(f.specialize(s_.usual), s_.at.j, s_.at.i, columns_);
    nest(f, s_.at.j, s_.at.i, columns_);
    pairs_of(f);
    Descriptor::current->lowering_passes.emplace_back(per_thread_pass(f.name()));
  }

  void pairs_of(Halide::Func f) const {
    if (!reads_pairs(s_, f)) return;
    const Var pairs = compute_pairs(s_, Halide::LoopLevel(f, tx_), columns_ / kThreads, rows_of_thread());
    Halide::Func(s_.in_pairs).store_in(Halide::MemoryType::Register).unroll(pairs);
  }

  // A value for each row and thread beside each other, in shared memory, rows innermost.
  void near(Halide::Func f, const Halide::LoopLevel& level) const {
    const Var x = s_.at.x, i = s_.at.i;
    f.compute_at(level).store_in(Halide::MemoryType::GPUShared).bound_extent(x, kThreads).bound(i, 0, s_.tile.rows);
    bound_others(s_, f);
    std::vector<Var> storage = f.args();
    std::swap(storage[0], storage[1]);
    f.reorder_storage(storage).align_storage(i, s_.tile.rows + 1);
    nest(f, x, i, kThreads);
  }

  // A thread for each row; its result is kept in shared memory.
  void reduction(Halide::Func reduced, Halide::Func kept, const Halide::LoopLevel& level) const {
    const Var i = s_.at.i;
    kept.compute_at(level).store_in(Halide::MemoryType::GPUShared).bound(i, 0, s_.tile.rows);
    bound_others(s_, kept);
    kept.split(i, ty_, tx_, kThreads).reorder(tx_, ty_).gpu_threads(tx_, ty_);
    reduced.compute_at(kept, tx_);
    reduced.update().unroll(reduced.rvars()[0]);
  }

  void state(const Halide::Func& out) const {
    Halide::Func f = s_.total;
    const Var x = s_.at.x, i = s_.at.i;
    f.compute_at(out, block_).bound_extent(x, kThreads).bound(i, 0, s_.tile.rows);
    bound_others(s_, f);
    nest(f, x, i, kThreads);
    nest(f.update(), x, i, kThreads, {}, {s_.tiles[0]});
    // Each value of a state is an allocation of its own.
    f.store_in(Halide::MemoryType::Register);
    for (int value = 0; value < f.outputs(); value++) {
      Descriptor::current->lowering_passes.emplace_back(per_thread_pass(f.name() + "." + std::to_string(value)));
    }
  }

  // Whether weights lie along the sum that they are factors of: threads read quads of them. Halide 21 doesn't see that
  // such quads are in registers where the sum's loops have a condition.
  bool lies_along_sum() const { return !s_.own.empty(); }
  int rows_of_thread() const { return s_.tile.rows / s_.tile.thread_rows; }

  AttentionStages s_;
  int columns_;
  Halide::LoopLevel block_level_;
  Var block_{"block"}, tx_{"tx"}, ty_{"ty"};
};

inline void attention_on_cpu(const AttentionStages& s, Halide::Func out) {
  using Halide::TailStrategy;
  constexpr int kRows = 4;  // of a micro-tile, which has two vectors of columns
  const int lanes = Descriptor::target.natural_vector_size<float>();
  const std::vector<Var> index = out.args();
  const Var c = s.at.c, i = s.at.i, j = s.at.j;
  Var tile("tile"), row("row"), vector("vector");
  out.split(index[1], tile, row, s.tile.rows, TailStrategy::GuardWithIf)
      .reorder(index[0], row, tile, index[2], index[3])
      .vectorize(index[0], lanes, TailStrategy::GuardWithIf)
      .parallel(tile)
      .parallel(index[2])
      .parallel(index[3]);

  const Halide::LoopLevel at_tile(s.result.sums, s.tiles[0]);
  // A micro-tile of sums on the stack, in registers as far as they go.
  const auto micro = [&](const TiledSum& sum, const Halide::LoopLevel& level) {
    Halide::Func sums = sum.sums;
    sums.compute_at(level)
        .store_in(Halide::MemoryType::Stack)
        .bound_extent(i, kRows)
        .bound_extent(sum.across, 2 * lanes);
    bound_others(s, sums);
    sums.vectorize(sum.across, lanes).unroll(sum.across).unroll(i);
    sums.update().reorder({sum.across, i, sum.inner, sum.outer});
    sums.update().vectorize(sum.across, lanes).unroll(sum.across).unroll(i);
  };
  // `within` are loops inside a micro-tile, `around` those around all of them.
  using Loops = std::vector<Halide::VarOrRVar>;
  const auto by_micro_tiles = [&](Halide::Stage stage, const Var& across, const Loops& within, const Loops& around) {
    Var ii("ii"), xx("xx");
    stage.split(across, across, xx, 2 * lanes, TailStrategy::RoundUp).split(i, i, ii, kRows, TailStrategy::RoundUp);
    Loops order{xx, ii};
    order.insert(order.end(), within.begin(), within.end());
    order.insert(order.end(), {i, across});
    order.insert(order.end(), around.begin(), around.end());
    stage.reorder(order).vectorize(xx, lanes).unroll(xx).unroll(ii);
  };
  const auto packed = [&](Halide::Func f, const Var& innermost) {
    f.compute_at(out, index[2]);
    std::vector<Var> storage{innermost};
    for (const Var& v : f.args()) {
      if (v.name() != innermost.name()) storage.push_back(v);
    }
    f.reorder_storage(storage).align_bounds(innermost, 2 * lanes).vectorize(innermost, lanes, TailStrategy::RoundUp);
  };
  for (const TiledSum& product : s.products) {
    micro(product, Halide::LoopLevel(s.weights[0], i));
    packed(product.right, j);
  }
  packed(s.result.right, c);
  for (Halide::Func weight : s.weights) {
    weight.compute_at(at_tile).bound(i, 0, s.tile.rows).align_bounds(j, 2 * lanes);
    by_micro_tiles(weight, j, {}, {});
    if (!reads_pairs(s, weight)) continue;
    const Var pairs = compute_pairs(s, Halide::LoopLevel(weight, i), 2 * lanes, kRows);
    Halide::Func(s.in_pairs).store_in(Halide::MemoryType::Stack).vectorize(pairs, lanes);
  }
  Halide::Func sums = s.result.sums;
  sums.compute_at(out, tile).bound(i, 0, s.tile.rows).align_bounds(c, 2 * lanes);
  by_micro_tiles(sums, c, {}, {});
  by_micro_tiles(sums.update(), c, {s.result.inner, s.result.outer}, Loops(s.tiles.begin(), s.tiles.end()));
}

}  // namespace detail

/// Of stages without a running state.
inline void attention(Cpu, const AttentionStages& stages, const Halide::Func& out) {
  detail::attention_on_cpu(stages, out);
}
inline void attention(auto, const AttentionStages& stages, const Halide::Func& out) {
  detail::AttentionOnGpu(stages).schedule(out);
}

}  // namespace ashlar::dsl

// Family: attention, Σ_j weight(i, j) right(j, c), where each weight is made of products Σ_c left(i, c) other(j, c):
// rows i in tiles, columns j in tiles that are gone through one after the other, so that no weight ever lies in memory.
//
//   CPU   a task has a tile of rows; the other operand is packed once for each head. For gradients by one input: the
//         others are scheduled by schedules/attention_cpu.h
//   GPU   a block has a tile of rows; operands come through shared memory, sums stay in registers (per_thread)
#pragma once

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
  int rows;
  Expr columns;    ///< on a GPU a constant
  int depth = 16;  ///< divides the columns
  int width = 64;  ///< of a block's results on a GPU

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
};

/// The index variables that all stages share: row `i` of tile `u`, column `j` of tile `t`, place `c` along a vector,
/// `g` of the heads that share one of the other side, head, batch.
struct AttentionIndex {
  Var c{"c"}, i{"i"}, j{"j"}, t{"t"}, g{"g"}, u{"u"}, h{"h"}, b{"b"};
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
  std::vector<Halide::Func> reduced = {};  ///< pairs of a reduction along a tile's columns and what keeps its result
  std::vector<Halide::Func> weights;       ///< of (j, i): each a pass over a tile
  TiledSum result;                         ///< Σ_j weight(j, i) right(c, j), added up over all tiles
  std::vector<Halide::RVar> tiles;         ///< the loops over tiles, the innermost first, of `total` where there is one
  Halide::Func total = {};                 ///< a running state of the tiles' results; undefined: `result` runs over all
  std::vector<Halide::Func> beside = {};   ///< outputs that have an element for each row
  /// What the last of `weights` reads, worked out for two columns by two rows at once: of (column and row of the pair,
  /// pair of columns, pair of rows, …). Undefined: nothing.
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
  return s.in_pairs.defined() && weight.name() == s.weights.back().name();
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

// Every column has the state of its row: what a row has one of is made of the column's in whose loop it is stored.
inline void compute_beside(const AttentionStages& s, const Halide::Func& out) {
  for (const Halide::Func& other : s.beside) {
    Rewrite of_column;
    of_column.calls[s.total.name()] = [&](std::vector<Expr> at, int value) -> Expr {
      at[0] = Halide::Func(out).args()[0];
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
    const auto [c1, i1] = over_threads(out, c, i, width);
    out.reorder({c1, i1, tx_, ty_, block_, index[2], index[3]}).unroll(c1).unroll(i1).gpu_threads(tx_, ty_);
    out.gpu_blocks(block_, index[2], index[3]);

    tile_coordinates();
    const Halide::Func all = running(s_);
    if (s_.total.defined()) state(out);
    sum(s_.result, s_.total.defined() ? Halide::LoopLevel(all, s_.tiles[0]) : Halide::LoopLevel(out, block_), width);
    const Halide::LoopLevel tile(all, s_.tiles[0]);
    for (const TiledSum& product : s_.products) sum(product, tile, columns_);
    for (const Halide::Func& weight : s_.weights) pass(weight, tile);
    for (size_t k = 0; k + 1 < s_.reduced.size(); k += 2) reduction(s_.reduced[k], s_.reduced[k + 1], tile);
    store_beside(s_.beside);
    index_arithmetic();
  }

 private:
  static constexpr int kThreads = 16;  // in each of two dimensions
  using Stage = Halide::Stage;

  // The loops over threads of a tile with `columns`, and those that each thread has left.
  std::pair<Var, Var> over_threads(Stage stage, const Var& x, const Var& y, int columns) const {
    Var x1(x.name() + "_of_thread"), y1(y.name() + "_of_thread");
    stage.split(x, tx_, x1, columns / kThreads).split(y, ty_, y1, s_.tile.rows / kThreads);
    return {x1, y1};
  }

  void sum(const TiledSum& s, const Halide::LoopLevel& level, int columns) const {
    Halide::Func sums = s.sums, left = s.left, right = s.right;
    const Var i = s_.at.i, x = s.across;
    sums.compute_at(level).bound_extent(x, columns).bound(i, 0, s_.tile.rows);
    bound_others(s_, sums);
    const auto nest = [&](Stage stage, std::vector<Halide::VarOrRVar> serial) {
      const auto [x1, i1] = over_threads(stage, x, i, columns);
      std::vector<Halide::VarOrRVar> order{x1, i1};
      if (!serial.empty()) order.emplace_back(s.inner);
      order.insert(order.end(), {tx_, ty_});
      order.insert(order.end(), serial.begin(), serial.end());
      stage.reorder(order).unroll(x1).unroll(i1).gpu_threads(tx_, ty_);
    };
    std::vector<Halide::VarOrRVar> serial{s.outer};
    if (s.sums.name() == running(s_).name()) serial.insert(serial.end(), s_.tiles.begin(), s_.tiles.end());
    nest(sums, {});
    nest(sums.update(), serial);
    sums.update().unroll(s.inner);
    per_thread(sums);
    // What a thread multiplies, read from shared memory as vectors.
    const auto in_registers = [&](Halide::Func tile, const Var& along, int extent) {
      Halide::Func own = tile.in(sums);
      own.compute_at(sums, s.inner).store_in(Halide::MemoryType::Register);
      for (const Var& v : own.args()) own.bound_extent(v, v.name() == along.name() ? extent : 1);
      if (extent % 4 == 0) {
        Var quad("quad");
        own.split(along, along, quad, 4).vectorize(quad).unroll(along);
      } else {
        own.vectorize(along);
      }
    };
    if (s.stages_left) stage(left, i, s_.tile.rows, true, sums, s.outer);
    stage(right, x, columns, x.name() == s_.at.j.name(), sums, s.outer);
    in_registers(left, i, s_.tile.rows / kThreads);
    in_registers(right, x, columns / kThreads);
  }

  // A tile in shared memory, its threads' dimension innermost. One that is turned round lies along c in memory: 8 of c
  // × 4 of the other for 32 threads read whole sectors and write to as many banks.
  void stage(Halide::Func tile, const Var& along, int extent, bool is_turned, const Halide::Func& sums,
             const Halide::RVar& outer) const {
    const Var other = is_turned ? s_.at.c : s_.at.j;
    tile.compute_at(sums, outer).store_in(Halide::MemoryType::GPUShared);
    tile.bound_extent(along, extent).bound_extent(other, s_.tile.depth);
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
    tile.split(item, item, ty_, kThreads * kThreads).split(ty_, ty_, tx_, kThreads);
    tile.reorder(item, tx_, ty_).unroll(item).gpu_threads(tx_, ty_);
  }

  // A value for each row and column, in shared memory, rows innermost.
  void pass(Halide::Func f, const Halide::LoopLevel& level) const {
    const Var i = s_.at.i, j = s_.at.j;
    f.compute_at(level).store_in(Halide::MemoryType::GPUShared).bound_extent(j, columns_).bound(i, 0, s_.tile.rows);
    bound_others(s_, f);
    std::vector<Var> storage{i, j};
    for (const Var& v : f.args()) {
      if (v.name() != i.name() && v.name() != j.name()) storage.push_back(v);
    }
    f.reorder_storage(storage).align_storage(i, s_.tile.rows + 4);
    const auto [j1, i1] = over_threads(f, j, i, columns_);
    f.reorder({i1, j1, tx_, ty_}).unroll(i1).unroll(j1).gpu_threads(tx_, ty_);
    if (!reads_pairs(s_, f)) return;
    const Var pairs = compute_pairs(s_, Halide::LoopLevel(f, tx_), columns_ / kThreads, s_.tile.rows / kThreads);
    Halide::Func(s_.in_pairs).store_in(Halide::MemoryType::Register).unroll(pairs);
  }

  // A thread for each row; its result is kept in shared memory.
  void reduction(Halide::Func reduced, Halide::Func kept, const Halide::LoopLevel& level) const {
    const Var i = s_.at.i;
    kept.compute_at(level).store_in(Halide::MemoryType::GPUShared).bound(i, 0, s_.tile.rows);
    bound_others(s_, kept);
    kept.split(i, ty_, tx_, kThreads).reorder(tx_, ty_).gpu_threads(tx_, ty_);
    reduced.compute_at(kept, tx_);
    reduced.update().unroll(reduced.rvars()[0], 8);
  }

  void state(const Halide::Func& out) const {
    Halide::Func f = s_.total;
    const Var c = s_.at.c, i = s_.at.i;
    f.compute_at(out, block_).bound_extent(c, s_.tile.width).bound(i, 0, s_.tile.rows);
    bound_others(s_, f);
    const auto nest = [&](Stage stage, bool is_update) {
      const auto [c1, i1] = over_threads(stage, c, i, s_.tile.width);
      std::vector<Halide::VarOrRVar> order{c1, i1, tx_, ty_};
      if (is_update) order.emplace_back(s_.tiles[0]);
      stage.reorder(order).unroll(c1).unroll(i1).gpu_threads(tx_, ty_);
    };
    nest(f, false);
    nest(f.update(), true);
    // Each value of a state is an allocation of its own.
    f.store_in(Halide::MemoryType::Register);
    for (int value = 0; value < f.outputs(); value++) {
      Descriptor::current->lowering_passes.emplace_back(per_thread_pass(f.name() + "." + std::to_string(value)));
    }
  }

  AttentionStages s_;
  int columns_;
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

// What a block of a GPU's threads makes of rows of scores, which come tile by tile: each thread has some of a tile's
// columns (AttentionTile), and all threads of a row know what they come to together.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generators/attention_operands.h"
#include "schedules/attention.h"
#include "schedules/lowering/still_used.h"

namespace ashlar::dsl {

/// A number of each row i and tile t.
class OfRow {
 public:
  using OfColumn = std::function<Expr(const Expr& column)>;
  using Join = std::function<Expr(const Expr& one, const Expr& other)>;
  OfRow(const std::string& joined, const std::string& kept)
      : of_thread("near_" + joined), of_threads(joined), of_all(kept) {}

  /// max_j value(j), of numbers alone: a NaN among them is lost.
  void maximum(const AttentionIndex& at, const AttentionTile& tile, const OfColumn& value) {
    // Begins with a finite number, so that no score is -∞ - -∞.
    define(at, tile, kLowest, value, [](const Expr& one, const Expr& other) { return Halide::max(one, other); });
    Descriptor::current->maxima_of_numbers.insert({of_thread.name(), of_threads.name()});
  }
  /// Σ_j value(j)
  void sum(const AttentionIndex& at, const AttentionTile& tile, const OfColumn& value) {
    define(at, tile, 0.0f, value, [](const Expr& one, const Expr& other) { return one + other; });
  }

  Func of_thread, of_threads, of_all;  ///< each needs the one before

 private:
  void define(const AttentionIndex& at, const AttentionTile& tile, float none, const OfColumn& value,
              const Join& join) {
    const auto& [c, i, j, t, g, u, h, b, x] = at;
    const RDom thread(0, AttentionTile::kThreads, "thread");
    of_thread(x, i, t, u, h, b) = AttentionTile::of_columns(x, tile.constant_columns(), value, join);
    of_threads(i, t, u, h, b) = none;
    of_threads(i, t, u, h, b) = join(of_threads(i, t, u, h, b), of_thread(thread, i, t, u, h, b));
    of_all(i, t, u, h, b) = of_threads(i, t, u, h, b);
  }
};

/// {m, Σ e^(s - m), Σ e^(s - m) value[c] of a thread's columns c} over tiles, m the largest score so far (Milakov and
/// Gimelshein 2018).
class RunningSoftmax {
 public:
  /// What a tile comes to.
  struct Tile {
    const Func& largest;   ///< m
    const Func& total;     ///< Σ e^(s - m)
    const Func& weighted;  ///< Σ e^(s - m) value[c]
  };
  explicit RunningSoftmax(const std::string& name) : state(name) {}

  /// `in_shared_memory` is kept there as long as tiles come.
  void define(const AttentionIndex& at, const AttentionTile& tile, const RDom& tiles, const Tile& next,
              const Expr& in_shared_memory) {
    const auto& [c, i, j, t, g, u, h, b, x] = at;
    const int columns = AttentionTile::of_thread(tile.width);
    std::vector<Expr> none{kLowest, 0.0f};
    none.resize(2 + columns, 0.0f);
    state(x, i, u, h, b) = Halide::Tuple(none);
    const Halide::FuncRef old = state(x, i, u, h, b);
    const Expr new_largest = next.largest(i, tiles, u, h, b),
               larger = Halide::select(old[0] < new_largest, new_largest, old[0]);
    const Expr keep = exp_below_zero(Value(old[0] - larger)), take = exp_below_zero(Value(new_largest - larger));
    std::vector<Expr> joined{tile.places > 0 ? still_used(larger, in_shared_memory) : larger,
                             old[1] * keep + next.total(i, tiles, u, h, b) * take};
    for (int k = 0; k < columns; k++) {
      const Expr column = AttentionTile::column_of(x, k, tile.width);
      joined.push_back(old[2 + k] * keep + next.weighted(column, i, tiles, u, h, b) * take);
    }
    update_at_once(state, {x, i, u, h, b}, joined);
  }

  /// Of query q by the thread that has column c.
  Expr largest(const AttentionTile& tile, const std::vector<Expr>& q_h_b, const Expr& c) const {
    return element(tile, q_h_b, c, 0);
  }
  Expr total(const AttentionTile& tile, const std::vector<Expr>& q_h_b, const Expr& c) const {
    return element(tile, q_h_b, c, 1);
  }
  Expr weighted(const AttentionTile& tile, const std::vector<Expr>& q_h_b, const Expr& c) const {
    return tile.of_column(c, [&](int column) { return element(tile, q_h_b, c, 2 + column); });
  }

  Func state;

 private:
  Expr element(const AttentionTile& tile, const std::vector<Expr>& q_h_b, const Expr& c, int which) const {
    const Expr &q = q_h_b[0], &h = q_h_b[1], &b = q_h_b[2];
    return state(AttentionTile::thread_of(c, tile.width), q % tile.rows, q / tile.rows, h, b)[which];
  }
};

}  // namespace ashlar::dsl

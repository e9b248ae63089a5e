// Tiles of rows of packed sequences: how kernels read them.
#pragma once

#include "generators/attention_operands.h"
#include "runtime/forms/sequence_tiles.h"

namespace ashlar::dsl {

/// Of each tile u: which packed rows are its own, all of one sequence, and which of the other side's rows it meets.
struct TilesOfSequences {
  using Of = forms::SequenceTiles::Of;
  In<i32, 2> tiles{"tiles", {any_size, constant(forms::SequenceTiles::kNumbers)}};

  Expr number(const Expr& u, Of which) const {
    return tiles(Value(inside(u, tiles.extent(0))), static_cast<int>(which)).expr();
  }
  /// How many rows it has, and meets.
  Expr count(const Expr& u) const { return number(u, Of::count); }
  Expr other_count(const Expr& u) const { return number(u, Of::other_count); }
  /// The packed row that is its row i, and the j-th that it meets.
  Expr row(const Expr& u, const Expr& i) const { return number(u, Of::row) + i; }
  Expr other_row(const Expr& u, const Expr& j) const { return number(u, Of::other_row) + j; }
  /// Whether both are there and see each other.
  Expr sees(const Expr& u, const Expr& i, const Expr& j, bool own_are_keys = false) const {
    const Expr own = number(u, Of::place) + i, other = number(u, Of::other_place) + j, shift = number(u, Of::shift);
    return i < count(u) && j < other_count(u) && (own_are_keys ? own <= other + shift : other <= own + shift);
  }
  /// x[b, h, row, c]; 0 where there is none.
  Expr own(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& u, const Expr& i, const Expr& c) const {
    return Halide::select(i < count(u) && c < x.extent(3), element(x, b, h, row(u, i), c), 0.0f);
  }
  Expr other(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& u, const Expr& j, const Expr& c) const {
    return Halide::select(j < other_count(u) && c < x.extent(3), element(x, b, h, other_row(u, j), c), 0.0f);
  }

 private:
  static Expr element(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& at, const Expr& c) {
    return x(certain(b, x.extent(0)), certain(h, x.extent(1)), inside(at, x.extent(2)), inside(c, x.extent(3)));
  }
};

}  // namespace ashlar::dsl

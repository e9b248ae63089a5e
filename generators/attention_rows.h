// Which rows a tile of attention has and which of the other side's it meets: bases of the kernels, which ask both the
// same.
#pragma once

#include "generators/attention_operands.h"
#include "runtime/forms/sequence_tiles.h"
#include "schedules/lowering/loop_end.h"

namespace ashlar::dsl {

/// Of sequences that are as long as their tensors: tile u has rows from u rows_of_tile on, and meets all of the other
/// side but what lies beyond the diagonal.
struct RowsOfBatches : AttentionMask {
  static constexpr bool kArePacked = false;
  explicit RowsOfBatches(const AttentionSizes& of) : AttentionMask(of) {}
  int rows_of_tile = 0;

  /// Of a result that tiles write.
  static Size results(const Dim& all) { return all; }
  Expr count_of_tiles(const Expr& all) const { return tiles_of(all, rows_of_tile); }
  /// The row of its tensor that is row i of a tile, and the j-th that it meets.
  Expr row(const Expr& u, const Expr& i) const { return u * rows_of_tile + i; }
  static Expr met_row(const Expr&, const Expr& j) { return j; }
  /// x[b, h, row, c]; 0 where there is none.
  Expr own(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& u, const Expr& i, const Expr& c) const {
    return padded(x, b, h, row(u, i), c);
  }
  static Expr met(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr&, const Expr& j, const Expr& c) {
    return padded(x, b, h, j, c);
  }
  /// The last row that a tile of queries meets, by the loop over blocks of so many of them.
  Expr last_met(const Expr& u, int, const RVar&) const {
    return before((u + 1) * rows_of_tile + Value(diagonal).expr());
  }
  /// Leaves what a tile doesn't meet out of a GPU's loop over tiles of the other side; what is worked out in turn t has
  /// to be so that this holds.
  Expr leave_out(RDom loop, const RVar& turn, const Expr&, const Expr& u, const Expr& columns, bool are_keys) const {
    const Expr shift = Value(diagonal);
    loop.where(are_keys ? before(u * rows_of_tile - shift) <= (turn + 1) * columns - 2
                        : turn * columns <= before((u + 1) * rows_of_tile + shift));
    return {};
  }
  /// Of what row i of tile u and the j-th that it meets come to: -∞ where they don't see each other.
  Expr score(const AttentionSizes& of, const Expr& dot, const Expr& b, const Expr& h, const Expr& u, const Expr& i,
             const Expr& j, bool are_keys, const Expr& = {}) const {
    const Expr q = are_keys ? j : row(u, i), k = are_keys ? row(u, i) : j;
    return masked(dot, mask(of, b, h, q, k), q, k, of.keys.extent());
  }
  /// Of which calls kernels are compiled apart.
  Expr usual(const AttentionSizes& of) const {
    return is_absent(mask(of, 0, 0, 0, 0)) && Value(is_boolean).expr() == 0;
  }
  static Expr of_pair(const Expr& value, const Expr&, const Expr&, const Expr&, bool) { return value; }

 private:
  Expr mask(const AttentionSizes& of, const Expr& b, const Expr& h, const Expr& q, const Expr& k) const {
    return attn_mask(b, h, inside(q, of.queries.extent()), inside(k, of.keys.extent()));
  }
};

/// A table of the tiles of packed sequences (runtime/forms/sequence_tiles.h).
struct SequenceTable : In<i32, 2> {
  using Of = forms::SequenceTiles::Of;
  explicit SequenceTable(const std::string& name)
      : In<i32, 2>(name, {any_size, constant(forms::SequenceTiles::kNumbers)}) {}
  Expr number(const Expr& u, Of which) const {
    return (*this)(Value(inside(u, extent(0))), static_cast<int>(which)).expr();
  }
};

/// Of packed sequences: a tile's rows are all of one, and what it meets stands in a table.
struct RowsOfSequences {
  static constexpr bool kArePacked = true;
  using Of = SequenceTable::Of;
  explicit RowsOfSequences(const AttentionSizes&) {}
  SequenceTable tiles{"tiles"};
  Scalar<float> scale{"scale"};
  int rows_of_tile = 0;

  static Size results(const Dim&) { return any_size; }
  Expr count_of_tiles(const Expr&) const { return tiles.extent(0); }
  Expr row(const Expr& u, const Expr& i) const { return number(u, Of::row) + i; }
  Expr met_row(const Expr& u, const Expr& j) const { return number(u, Of::other_row) + j; }
  Expr own(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& u, const Expr& i, const Expr& c) const {
    return own_of(tiles, x, b, h, u, i, c);
  }
  Expr met(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& u, const Expr& j, const Expr& c) const {
    return Halide::select(j < met_count(u) && c < x.extent(3), element(x, b, h, met_row(u, j), c), 0.0f);
  }
  Expr last_met(const Expr& u, int block, const RVar& turn) const {
    return loop_end(tiles_of(met_count(u), block), turn) * block - 1;
  }
  Expr leave_out(const RDom&, const RVar& turn, const Expr& t, const Expr& u, const Expr& columns, bool) const {
    return t < loop_end(tiles_of(met_count(u), columns), turn);
  }
  Expr score(const AttentionSizes&, const Expr& dot, const Expr&, const Expr&, const Expr& u, const Expr& i,
             const Expr& j, bool are_keys, const Expr& is_met = Halide::Internal::const_true()) const {
    return Halide::select(sees(u, i, j, are_keys) && is_met, dot * Value(scale).expr(), kMinusInfinity);
  }
  static Expr usual(const AttentionSizes&) { return {}; }
  /// A value that is a part of sums over pairs: a NaN of another sequence's, which is next to this one's last row,
  /// stays there.
  Expr of_pair(const Expr& value, const Expr& u, const Expr& i, const Expr& j, bool are_keys) const {
    return Halide::select(sees(u, i, j, are_keys), value, 0.0f);
  }

 protected:
  Expr number(const Expr& u, Of which) const { return tiles.number(u, which); }
  Expr met_count(const Expr& u) const { return number(u, Of::other_count); }
  static Expr own_of(const SequenceTable& table, const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& u,
                     const Expr& i, const Expr& c) {
    const Expr read = element(x, b, h, table.number(u, Of::row) + i, c);
    return Halide::select(i < table.number(u, Of::count) && c < x.extent(3), read, 0.0f);
  }

 private:
  /// Whether both are there and see each other.
  Expr sees(const Expr& u, const Expr& i, const Expr& j, bool are_keys) const {
    const Expr own = number(u, Of::place) + i, other = number(u, Of::other_place) + j, shift = number(u, Of::shift);
    return i < number(u, Of::count) && j < met_count(u) && (are_keys ? own <= other + shift : other <= own + shift);
  }
  static Expr element(const In<f32, 4>& x, const Expr& b, const Expr& h, const Expr& at, const Expr& c) {
    return x(certain(b, x.extent(0)), certain(h, x.extent(1)), inside(at, x.extent(2)), inside(c, x.extent(3)));
  }
};

}  // namespace ashlar::dsl

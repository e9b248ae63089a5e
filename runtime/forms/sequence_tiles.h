// How attention within packed sequences cuts their rows into tiles, each of one sequence.
#pragma once

#include <cstdint>

namespace ashlar::forms {

/// Tiles of sequence b begin with tile offsets[b] / rows + b: the next sequence's is at least as many behind it as it
/// takes tiles, and nobody has to add them up.
struct SequenceTiles {
  /// The numbers of a tile in a table i32 [tiles, kNumbers]: its first packed row, that row's place in its sequence,
  /// how many rows it has; the same of the rows of the other side that it meets; query q sees key k where k ≤ q +
  /// shift, both as places in their sequence; which sequence.
  enum class Of { row, place, count, other_row, other_place, other_count, shift, sequence };
  static constexpr int kNumbers = 8;

  template <class Number, class Rows>
  static Number first(const Number& offset, const Number& sequence, const Rows& rows) {
    return offset / rows + sequence;
  }
  static int64_t count(int64_t total, int64_t sequences, int64_t rows) { return first(total, sequences, rows); }
};

}  // namespace ashlar::forms

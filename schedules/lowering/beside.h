// Several outputs of one loop nest: what Halide's Tuples are, but of different ranks.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// Has `others`, outputs whose indices are all of (row, column) or the row alone, stored by the loops of `out`, whose
/// indices those are: an element with an element of `out`, a row's with the one of column 0, or with the row's where
/// `out` has no columns. From here on `out`'s value holds theirs, so that a schedule that takes `out` apart takes them
/// along; they have a schedule of their own that does nothing. Call it before `out` is scheduled, and
/// store_beside() where its stores are to be written out: behind passes that compare stores, before those that split
/// them.
void compute_beside(const Halide::Func& out, const std::vector<Halide::Func>& others, const Var& row,
                    const Var& column);
/// The same for an `out` of any rank and outputs whose indices are those of `out` but for the innermost: they are
/// stored with the element of column 0.
void compute_rows_beside(const Halide::Func& out, const std::vector<Halide::Func>& others);
void store_beside(const std::vector<Halide::Func>& others);

/// What goes along with a stored value: where `condition` holds, `element` to place `index` of an output that from here
/// on has nothing else. Of a vector the condition holds for all lanes, for none, or for lanes side by side.
struct StoredBeside {
  Halide::Func output;
  Halide::Expr index, element, condition;
};
/// `value`, to be stored by whatever stage, and what goes along.
Halide::Expr value_and_store(const Halide::Expr& value, const StoredBeside& other);
/// `value` of an output, to be stored at `index` and where `condition` holds alone, whatever its loops' guards say;
/// with store_beside(). Of a vector the condition holds as above.
Halide::Expr value_stored_at(const Halide::Expr& value, const Halide::Expr& index, const Halide::Expr& condition);
bool has_own_place(const Halide::Expr& value);
/// The same for a `value` that compute_beside() may have changed, and for the elements that go along. `position` is 0
/// for one element of a row, in whose place the row's own values are stored.
Halide::Expr row_stored_at(const Halide::Expr& value, const Halide::Expr& position, const Halide::Expr& index,
                           const Halide::Expr& condition);

}  // namespace ashlar::dsl

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

/// `value`, to be stored by whatever stage: with it, where `condition` holds, goes `element` to place `index` of
/// `other`, an output that from here on has nothing else. Vectors are of one condition.
Halide::Expr value_and_store(const Halide::Expr& value, const Halide::Func& other, const Halide::Expr& index,
                             const Halide::Expr& element, const Halide::Expr& condition);

}  // namespace ashlar::dsl

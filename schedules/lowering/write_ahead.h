// A result's cache lines asked for before it is written, on the CPU.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// A kernel that works out a row, then writes it in one go waits for the lines that it writes: a store into a line that
/// isn't in a cache reads it first. Has `stage`, which holds values of such a row, ask with each vector of an input for
/// the same elements of `out`, which must have that input's shape, both dense. Rows that no second-level cache
/// holds are left out.
void write_ahead(const Halide::Func& stage, const Halide::Func& out);

/// The same of a tile of results: has the lines of what is stored to `out` behind `sums`, which are kept on the stack,
/// asked for before these are added up. Of stores in loops, none are.
void write_tile_ahead(const Halide::Func& sums, const Halide::Func& out);

}  // namespace ashlar::dsl

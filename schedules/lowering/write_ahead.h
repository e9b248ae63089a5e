// A result's cache lines asked for before it is written, on the CPU.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// A kernel that works out a row, then writes it in one go waits for the lines that it writes: a store into a line that
/// isn't in a cache reads it first. Has `stage`, which holds values of such a row, ask with each vector of an input for
/// the same elements of `out`, which must have that input's shape, both dense. Rows that the first-level cache can't
/// hold are left out.
void write_ahead(const Halide::Func& stage, const Halide::Func& out);

}  // namespace ashlar::dsl

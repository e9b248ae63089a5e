// Masked stores of the CPU's internal stages, made whole.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// A load can't take what a masked store has just written from the store buffer: it waits until the store has left
/// that, and no later row begins meanwhile. Has every vector of `stage` stored whole: lanes that the mask would leave
/// as they are get what they hold, or, with `is_padded`, anything, where nothing reads them. The stage's memory must
/// reach to the end of its last vector.
void store_whole(const Halide::Func& stage, bool is_padded = false);

}  // namespace ashlar::dsl

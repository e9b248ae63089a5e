// Small stages of the CPU's whose elements are turned round in registers.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// Has `stage`, which lies on the stack, is fully unrolled and is read at constant places, never stored: what reads
/// some of its vectors' elements shuffles the vectors. LLVM leaves it in memory, where a load of elements from several
/// stores waits until these have left the store buffer; and stores to more than a few places at a time keep processors
/// from joining those of whole cache lines. A Halide::CompileError names a stage of which any of that isn't true.
void as_vectors(const Halide::Func& stage);

}  // namespace ashlar::dsl

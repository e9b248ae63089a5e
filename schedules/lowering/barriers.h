// Barriers in a kernel's loops: Halide 21 has one behind each stage, and most stages of rows in registers need none.
#pragma once

#include <Halide.h>

#include <memory>

namespace ashlar::dsl {

/// Has the kernel under construction lowered with the pass below. For kernels whose threads give each other values
/// through shared memory alone.
void needed_barriers();

/// Leaves out of every serial loop the barriers that no two accesses of one shared allocation, of which one is a store,
/// have between them alone: in one turn, from one to the next, or across the loop's ends.
std::unique_ptr<Halide::Internal::IRMutator> needed_barriers_pass();

}  // namespace ashlar::dsl

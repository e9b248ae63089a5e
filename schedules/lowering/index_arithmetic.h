// Coordinates inside GPU kernels, for which Halide 21 generates more code than they need.
#pragma once

#include <Halide.h>

#include <memory>

namespace ashlar::dsl {

/// Has the kernel under construction lowered with the first pass below and, on OpenCL, with the second. The last
/// directive of a schedule: other passes wouldn't recognise what these leave.
void index_arithmetic();

/// Quotients and remainders inside kernels whose operands are certainly not negative (numbers of blocks and threads,
/// extents, and what is made of them) become unsigned: Halide's signed ones round towards minus infinity, which takes
/// some twenty instructions. A divisor is at least 1 in a kernel that runs for any element, and is taken as that.
std::unique_ptr<Halide::Internal::IRMutator> unsigned_division_pass();

/// Integer arithmetic that several statements of a kernel do is done once, where the last statement that encloses them
/// all begins. Halide's OpenCL source otherwise repeats it after every store. Loads are never moved.
std::unique_ptr<Halide::Internal::IRMutator> shared_arithmetic_pass();

}  // namespace ashlar::dsl

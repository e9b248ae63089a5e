// Values that a warp's lanes read from each other, on CUDA.
#pragma once

#include <Halide.h>

#include <memory>

namespace ashlar::dsl {

/// Halide 21 reads a value of lane (l + d) mod 32 by two shuffles, down and up, and a choice between them. This pass,
/// which every kernel for CUDA has, reads it by one that takes a lane's number modulo 32 itself.
std::shared_ptr<Halide::Internal::IRMutator> rotations_by_one_shuffle();

}  // namespace ashlar::dsl

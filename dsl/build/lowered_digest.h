// What a kernel is just before Halide makes code of it, as a hash: after every lowering pass, ours included.
#pragma once

#include <Halide.h>

#include "dsl/build/digest.h"

namespace ashlar::dsl {

/// Adds all that code generation reads of a lowered statement: every node with its type, names, numbers bit for bit
/// (Halide's printed text rounds them). Throws std::logic_error at a node that no lowered statement has.
void add_lowered(Digest& digest, const Halide::Internal::Stmt& statement);

/// Adds what the code says of an argument's sizes or value, which the statement needn't show.
void add_estimates(Digest& digest, const Halide::Parameter& argument);

}  // namespace ashlar::dsl

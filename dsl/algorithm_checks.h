// Mistakes in a kernel's algorithm that Halide 21 lets pass in silence, or tells in words that don't help. All throw
// Halide::CompileError (dsl/mistake.h).
#pragma once

#include <Halide.h>

#include <set>
#include <string>
#include <vector>

#include "dsl/descriptor.h"

namespace ashlar::dsl {

/// An output or scratch that algorithm() doesn't define.
void check_defined(const Descriptor& descriptor);

/// A maximum or minimum of floats that isn't the language's own, which drops NaN on some target; `may_drop_nan` are the
/// stages reduced by max_of_numbers().
void check_maxima(const std::vector<Halide::Func>& outputs, const std::set<std::string>& may_drop_nan);

/// A Tuple update that reads itself inside a call: Halide 21 evaluates such updates one element after the other and
/// gets wrong numbers.
void check_tuple_updates(const std::vector<Halide::Func>& outputs);

/// A tensor read with an index that runs over another of its dimensions, or over another size than its shape rule says:
/// x(c, r) for x(r, c), which tensors that happen to be square hide. After the shape rules have been applied.
void check_indices(const std::vector<Halide::Func>& outputs);

}  // namespace ashlar::dsl

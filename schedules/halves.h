// Family: an output [outer, 2, inner] whose halves are worked out together, from values of which they share some.
#pragma once

#include <array>

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// `index`: the output's variables, outermost first. What both halves read is loaded and worked out once.
void in_halves(Cpu, Halide::Func out, const std::array<Var, 3>& index);
void in_halves(OpenCL, Halide::Func out, const std::array<Var, 3>& index);
void in_halves(Cuda, Halide::Func out, const std::array<Var, 3>& index);

}  // namespace ashlar::dsl

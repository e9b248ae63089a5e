// Family: a dense rank-4 output whose inputs have any strides, 0 where they are broadcast.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// `index`: the output's variables, outermost first. Branches chosen by the call's strides: one flat run (dense or
/// scalar operands), rows (operands broadcast along outer dimensions), and anything else.
void broadcast(Cpu, Halide::Func out, const std::vector<Var>& index);
void broadcast(OpenCL, Halide::Func out, const std::vector<Var>& index);
void broadcast(Cuda, Halide::Func out, const std::vector<Var>& index);

}  // namespace ashlar::dsl

// Family: every output element depends on the input elements at its own index, over dense rank-1 tensors.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// `stages` are intermediates at the same index, held in registers. A kernel that writes over its inputs needs them:
/// all loads of an element then come before its first store.
using Intermediates = std::vector<Stage*>;

/// Vectors, in parallel chunks of 16384 elements.
void elementwise(Cpu, Halide::Func out, const Var& i, const Intermediates& stages = {});
/// One 16-byte access per thread where every view starts at a multiple of it, else four elements, a block apart.
void elementwise(OpenCL, Halide::Func out, const Var& i, const Intermediates& stages = {});
void elementwise(Cuda, Halide::Func out, const Var& i, const Intermediates& stages = {});

}  // namespace ashlar::dsl

// Family: [outer, reduced, inner] with any strides, reduced to [outer, parts, inner]; part p takes one chunk.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// The stages of such a kernel: out(outer, part, inner) reads `reduce` at the same indices; `axis` runs over one chunk,
/// and a condition on it should have the form k + a < b.
struct ReductionStages {
  Stage& reduce;
  Halide::RVar axis;
  Halide::Func out;
  Var outer, part, inner;
};

/// inner == 1: reduced in vector lanes; else vectors along inner. Parallel over the results.
void reduction(Cpu, const ReductionStages& stages);
/// inner == 1: a work-group for one long or several short reductions; else threads along inner and along the reduced
/// axis. Trees in local memory.
void reduction(OpenCL, const ReductionStages& stages);
void reduction(Cuda, const ReductionStages& stages);

}  // namespace ashlar::dsl

// What is left of a product whose sums lie in memory: out[row,column] = f(Σ_p parts[p,row,column], column).
#pragma once

#include "schedules/generic.h"

namespace ashlar::dsl {

/// The reductions that such an output reads, all of indices (row, column): the sum over the parts, and others that a
/// thread has to itself, of few terms.
using SumsOfParts = std::vector<std::reference_wrapper<Stage>>;

void sum_of_parts(Cpu, const Halide::Func& out, const SumsOfParts& sums, const Var& row, const Var& column);
/// A vector for each thread where rows are whole aligned ones.
void sum_of_parts(OpenCL, const Halide::Func& out, const SumsOfParts& sums, const Var& row, const Var& column);
void sum_of_parts(Cuda, const Halide::Func& out, const SumsOfParts& sums, const Var& row, const Var& column);

}  // namespace ashlar::dsl

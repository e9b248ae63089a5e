// Loads of lanes that lie inside a buffer only.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// Of each vector select(condition, load, 0) of a kernel's input, loads the lanes that the condition holds for and no
/// others: a vector may then reach beyond the end of what it reads. For targets that have masked loads.
void load_masked(const std::vector<Halide::Parameter>& inputs);

/// What `stage` selects where i < n, of elements of 32 bits and more: loads of x[clamp(i, 0, n - 1)], neighbours in
/// memory, become masked ones of x[i], where they would be taken one by one.
void load_tails_masked(const Halide::Func& stage);

}  // namespace ashlar::dsl

// Loads of lanes that lie inside a buffer only.
#pragma once

#include "dsl/kernel.h"

namespace ashlar::dsl {

/// Of each vector select(condition, load, 0) of a kernel's input, loads the lanes that the condition holds for and no
/// others: a vector may then reach beyond the end of what it reads. For targets that have masked loads.
void load_masked(const std::vector<Halide::Parameter>& inputs);

}  // namespace ashlar::dsl

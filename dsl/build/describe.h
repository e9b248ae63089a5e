// The kernels of a generator executable as JSON, for documentation and the tuner.
#pragma once

#include <ostream>

namespace ashlar::dsl {

void describe(std::ostream& out);

}  // namespace ashlar::dsl

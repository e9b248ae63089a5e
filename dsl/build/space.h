// The space of a kernel's tunables on one code target, and what its family's rules leave of it.
#pragma once

#include <map>
#include <ostream>

#include "dsl/build/instances.h"

namespace ashlar::dsl {

/// True where the tuner varies such a tunable.
bool means_something(On on, const std::string& code_target);

struct Space {
  std::vector<Setting> settings;        ///< the default first
  std::map<std::string, int> left_out;  ///< rule → how many settings break it (and none before it)
};

/// Every combination of the tunables that mean something on `code_target`, as far as the rules allow. The default stays
/// whatever they say: it is what others are compared with. Of a kernel with plans, {} is all of them, each where it is
/// chosen; then come each plan and its combinations of the tunables that it reads.
Space space_of(const KernelSummary& kernel, const Build& build, const std::string& code_target, int cuda_capability);

/// The spaces of all instances of all kernels of this executable, as JSON: for ashlar-tune.
void write_spaces(std::ostream& out, const std::string& code_target, int cuda_capability);

}  // namespace ashlar::dsl

// Look-up of kernels by name. Links every kernel of the library (ashlar_all); programs that call typed functions don't.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/launch/kernel.h"

namespace ashlar {

/// Every kernel of the library.
const std::vector<const KernelInfo*>& all_kernels();

/// The kernel of this name, or nullptr.
const KernelInfo* find_kernel(std::string_view name);

}  // namespace ashlar

#include "dsl/registry.h"

namespace ashlar::dsl {

std::vector<KernelEntry>& kernels() {
  static std::vector<KernelEntry> all;
  return all;
}

bool add_kernel(KernelEntry entry) {
  for (const KernelEntry& other : kernels()) {
    if (other.name == entry.name) throw Halide::CompileError("two kernels are called " + entry.name);
  }
  kernels().push_back(std::move(entry));
  return true;
}

}  // namespace ashlar::dsl

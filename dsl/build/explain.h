// What one instance becomes on a target, for people: its tunables and its loop nest.
#pragma once

#include <ostream>

#include "dsl/build/instances.h"

namespace ashlar::dsl {

/// Prints the tunables with their values of one instance ("f32_none") with one setting, and then Halide's loop nest,
/// which goes to stderr. Throws Halide::CompileError when this executable hasn't the instance.
void explain(std::ostream& out, const std::string& kernel, const std::string& instance, const std::string& code_target,
             int cuda_capability, const Setting& setting);

/// The build of that name; throws Halide::CompileError when there's none.
std::pair<const KernelEntry*, Build> find_build(const std::string& kernel, const std::string& instance);

}  // namespace ashlar::dsl

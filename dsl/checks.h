// Mistakes that Halide 21 lets pass in silence, turned into errors that name the kernel.
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace ashlar::dsl {

/// Throws Halide::CompileError when an output was left unscheduled for `target`: no GPU loop on a GPU, or a schedule
/// that nobody touched on the CPU.
void check_scheduled(const std::string& kernel, const std::vector<Halide::Func>& outputs, const Halide::Target& target);

/// Throws Halide::CompileError on a Tuple update that reads itself inside a call: Halide 21 evaluates such updates one
/// element after the other and gets wrong numbers.
void check_tuple_updates(const std::string& kernel, const std::vector<Halide::Func>& outputs);

}  // namespace ashlar::dsl

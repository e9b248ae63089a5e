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

/// Halide checks that the product of a buffer's extents stays under 2^31. With the hidden dimension that carries a
/// view's offset it is no size at all, and far views of large tensors would be refused. The launch gate checks sizes
/// itself.
void drop_size_product_checks(Halide::Pipeline& pipeline);

}  // namespace ashlar::dsl

// Mistakes in a kernel's schedule that Halide 21 lets pass in silence. All throw Halide::CompileError (dsl/mistake.h).
#pragma once

#include <Halide.h>

#include <string>
#include <vector>

namespace ashlar::dsl {

/// A stage left unscheduled for `target`. On a GPU: an output, an update or a specialisation of one without a GPU loop,
/// and a stage that would need memory of its own. On the CPU: an output or update that nobody touched.
void check_scheduled(const std::vector<Halide::Func>& outputs, const Halide::Target& target);

/// A reduction without a place in the loops that is worked out anew where one result would do: right numbers, a
/// thousand times slower.
void check_reductions_placed(const std::vector<Halide::Func>& outputs);

/// For a family that places the reductions it is told of: one below `output` that isn't among `listed` (their names).
void check_reductions_listed(const Halide::Func& output, const std::vector<std::string>& listed, const char* family);

/// Halide checks that the product of a buffer's extents stays under 2^31. With the hidden dimension that carries a
/// view's offset it is no size at all, and far views of large tensors would be refused. The launch gate checks sizes
/// itself.
void drop_size_product_checks(Halide::Pipeline& pipeline);

}  // namespace ashlar::dsl

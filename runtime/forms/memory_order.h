// Elementwise calls on tensors that are dense but for the order of their dimensions, as a transpose is.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/launch/form.h"

namespace ashlar::forms {

/// The strides that a result of this shape gets: those of the operands of that shape where all of them are alike,
/// without gaps, and in another order than row-major; else nothing. As in PyTorch; what broadcasts has no say.
std::optional<Shape> strides_in_other_order(const Shape& shape, std::span<const Tensor> operands);

/// Where all operands lie alike without gaps, but not in row-major order: calls `form` on them as they follow each
/// other in memory, and gives the results the operands' strides, as PyTorch does. Nothing where that isn't so, or where
/// the kernel writes in place. Inputs declared with rank 0 where others aren't are no operands, nor are single elements
/// where `broadcasts`.
std::optional<std::vector<Tensor>> call_along_memory(const KernelInfo& kernel, const FormCall& call,
                                                     std::vector<Tensor> (*form)(const KernelInfo&, const FormCall&),
                                                     bool broadcasts = false);

}  // namespace ashlar::forms

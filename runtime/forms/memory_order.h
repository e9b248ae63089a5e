// Elementwise calls on tensors that are dense but for the order of their dimensions, as a transpose is.
#pragma once

#include <optional>
#include <vector>

#include "runtime/launch/form.h"

namespace ashlar::forms {

/// Where all operands lie alike without gaps, but not in row-major order: calls `form` on them as they follow each
/// other in memory, and gives the results the operands' strides, as PyTorch does. Nothing where that isn't so, or where
/// the kernel writes in place. Inputs declared with rank 0 where others aren't are no operands, nor are single elements
/// where `broadcasts`.
std::optional<std::vector<Tensor>> call_along_memory(const KernelInfo& kernel, const FormCall& call,
                                                     std::vector<Tensor> (*form)(const KernelInfo&, const FormCall&),
                                                     bool broadcasts = false);

}  // namespace ashlar::forms

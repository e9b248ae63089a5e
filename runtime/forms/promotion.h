// Calls whose tensors have several dtypes, or one that the kernel wasn't compiled for.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/launch/launch.h"

namespace ashlar::forms {

struct Promotion {
  DType compute;  ///< of the inputs, which the kernel has
  DType result;   ///< of the output
};

/// What a call computes in and what it gives, where that isn't just the inputs' dtype. Inputs of the kernel's first
/// element type meet by PyTorch's rule (runtime/tensor/promotion.h). A kernel without that instance takes the next
/// wider one that gives the same bits: f32 for 16-bit floats, i64 for integers and bool; one without any for integers
/// takes f32, and so does its result (a true division). Where no instance would help, launch() says so.
std::optional<Promotion> promotion_of(const KernelInfo& kernel, std::span<const Tensor> inputs);

/// The inputs with those of the kernel's first element type converted to `dtype`.
std::vector<Tensor> converted(const KernelInfo& kernel, std::span<const Tensor> inputs, DType dtype);

}  // namespace ashlar::forms

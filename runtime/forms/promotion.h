// Calls whose tensors have several dtypes, or one that the kernel wasn't compiled for.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/launch/form.h"
#include "runtime/launch/launch.h"

namespace ashlar::forms {

struct Promotion {
  DType compute;  ///< of the inputs, which the kernel has
  DType result;   ///< of the outputs that have no dtype of their own
};

/// What a call of an instance that the kernel lacks computes in, with the same bits, and what it gives: 16-bit floats
/// in f32, since their arithmetic is in f32 and rounded once anyway; integers and bool in i64, or, where there is no
/// instance for integers, in f32, and so is the result (a true division, a square root). Nothing where the kernel has
/// the instance or none of these would help, so that launch() says what is missing, and for kernels that write over an
/// input.
std::optional<Promotion> substitute_of(const KernelInfo& kernel, KernelKey key, DeviceKind device);

/// The same for inputs of several dtypes: those of the kernel's first element type meet by PyTorch's rule
/// (runtime/tensor/promotion.h).
std::optional<Promotion> promotion_of(const KernelInfo& kernel, std::span<const Tensor> inputs, uint16_t variant);

/// The inputs with those of the kernel's first element type converted to `dtype`.
std::vector<Tensor> converted(const KernelInfo& kernel, std::span<const Tensor> inputs, DType dtype);

/// Results of a call on converted inputs, those of the kernel's element types converted to `dtype`.
std::vector<Tensor> narrowed(const KernelInfo& kernel, std::vector<Tensor> results, DType dtype);

/// The call with its inputs converted, through the kernel's form.
std::vector<Tensor> call_promoted(const KernelInfo& kernel, const FormCall& call, Promotion to);

/// x in f32, where an operator written by hand computes for 16-bit floats too. Throws ValueError where x is undefined,
/// DTypeError where it is neither.
Tensor as_f32(const char* operation, const Tensor& x);

}  // namespace ashlar::forms

// In which dtype tensors and numbers of several meet: PyTorch's rule (torch.result_type).
//
// Dtypes have categories: bool < integer < floating point. Operands of one category meet in the smallest dtype that
// holds both (f16 and bf16: f32; u8 and i8: i16). Tensors with dimensions come first, then rank-0 tensors, then
// numbers: one that comes later changes the dtype only by its category. So i32[3] + i64[] is i32, i32[3] + 2.5 is f32,
// and f16[3] + 2.5 is f16.
#pragma once

#include <span>

#include "runtime/tensor/number.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// The dtype in which tensors with dimensions, of these two dtypes, meet (torch.promote_types). An integer dtype that
/// holds neither is i64.
DType promote(DType a, DType b);

/// The dtype in which these tensors meet. Throws ValueError when there is none, or one is undefined.
DType result_type(std::span<const Tensor> tensors);
DType result_type(const Tensor& a, const Tensor& b);
DType result_type(const Tensor& x, Number number);

/// Whether elements of `from` may be written to a tensor of `to` in place (torch.can_cast): the category doesn't fall.
bool can_cast(DType from, DType to);

}  // namespace ashlar

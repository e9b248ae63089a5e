// How a number takes part in an operation on tensors.
#pragma once

#include <string>

#include "runtime/support/error.h"
#include "runtime/tensor/promotion.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::detail {

/// The number as a rank-0 tensor beside `x`: on its device, in the dtype where the two meet.
inline Tensor tensor_of(Number number, const Tensor& x) {
  return Tensor::full({}, number, result_type(x, number), x.device());
}

/// The number as an exponent of `x`. Throws ValueError where it is below 0 and both are integers.
inline Tensor exponent_of(Number number, const Tensor& x) {
  if (number.real() < 0 && !is_floating(result_type(x, number))) {
    throw ValueError("pow", x.str() + " to the power of " + std::to_string(number.integer()),
                     "an exponent of 0 or more, or floating point", "Convert the tensor with to(DType::f32)");
  }
  return tensor_of(number, x);
}

/// Whether x · scale + shift, computed in f32, is what a sum or product of `x` and a number has to be. It takes one
/// kernel; a rank-0 tensor would have to be filled first.
inline bool is_affine(const Tensor& x, Number number) {
  const DType dtype = result_type(x, number);
  return is_floating(dtype) && dtype != DType::f64;
}

/// As shift it changes nothing, not even a zero's sign.
inline constexpr double kNoShift = -0.0;

}  // namespace ashlar::detail

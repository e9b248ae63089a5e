// Kernels that only move elements are compiled for their sizes: a bfloat16 moves as a float16 does.
#pragma once

#include "runtime/tensor/dtype.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::forms {

/// The dtype that stands for all of its width.
inline DType carrier(DType dtype) {
  switch (size_of(dtype)) {
    case 1:
      return DType::u8;
    case 2:
      return DType::f16;
    case 4:
      return DType::i32;
    default:
      return DType::i64;
  }
}

/// The same elements seen as their carrier's.
inline Tensor as_carrier(const Tensor& x) {
  return Tensor(x.storage(), x.shape(), x.strides(), x.offset(), carrier(x.dtype()));
}

}  // namespace ashlar::forms

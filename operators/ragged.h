// What operators on packed sequences have in common.
#pragma once

#include "runtime/tensor/tensor.h"

namespace ashlar {

/// Offsets as the kernels read them: i64 [batch + 1]. Looked at where that costs no wait, on the CPU outside of a
/// capture: they rise from 0 or more to `total` at most, by `longest` at most. Throws ValueError, DTypeError,
/// DeviceError, ShapeError and IndexError.
Tensor checked_offsets(const char* operation, const char* name, const Tensor& x, const Tensor& offsets, int64_t total,
                       int64_t longest);

}  // namespace ashlar

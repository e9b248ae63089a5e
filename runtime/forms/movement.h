// Form::movement: elements go somewhere, nothing is computed but a cast. What Tensor's copies and fills are made of.
#pragma once

#include "runtime/launch/kernel.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

namespace kernels {
extern const KernelInfo fill, copy, cast;
}

namespace forms {

/// Writes `value`, rounded to the dtype, to every element of `destination` (any strides). Throws ValueError when an
/// integer dtype can't hold it or when elements of `destination` share memory.
void fill(const Tensor& destination, double value);

/// destination[i] = source[i]: one shape, dtype and device; any strides, negative ones too. The two must not overlap.
/// Throws ValueError when elements of `destination` share memory.
void copy(const Tensor& source, const Tensor& destination);

/// A dense tensor of `source`'s elements converted to `dtype`: floats to integers towards zero, saturated, NaN as 0;
/// integers to narrower ones modulo 2^bits; to boolean whether they differ from 0.
Tensor cast(const Tensor& source, DType dtype);

}  // namespace forms
}  // namespace ashlar

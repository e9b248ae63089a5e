// Which kernels a cast between two element types is made of. Not every pair has one of its own: kernels for 132 pairs
// would be most of what a program carries, for conversions that hardly anybody calls.
#pragma once

#include <vector>

#include "runtime/device/device.h"
#include "runtime/tensor/dtype.h"

namespace ashlar::forms {

/// True for a step that changes no bit: integers of one size, and boolean as one of a byte.
bool keeps_bits(DType from, DType to);

/// The dtypes that values go through, the last of them `to`: those of the shortest chain that gives the bits of a
/// cast in one step. {to} where nothing leads there on such a device, so that the launch says what is missing.
std::vector<DType> cast_path(DType from, DType to, DeviceKind kind);

}  // namespace ashlar::forms

// Which views share memory: with themselves, or with another.
#pragma once

#include "runtime/tensor/tensor.h"

namespace ashlar::forms {

/// True when no two indices of these loops meet in one element. Exact but for strides so exotic that a search of a
/// millisecond doesn't tell, which count as meeting.
bool is_injective(const Shape& sizes, const Shape& strides);

/// Whether some byte is of an element of both. Exact but for such strides, which count as sharing.
bool share_memory(const Tensor& a, const Tensor& b);

}  // namespace ashlar::forms

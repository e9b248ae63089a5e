// Reductions for operators that work something out from their results.
#pragma once

#include <span>

#include "runtime/forms/forms.h"

namespace ashlar::forms {

/// As reduction(), in the accumulator's dtype: of 16-bit floats f32, which nothing has rounded yet.
Tensor reduction_unrounded(const KernelInfo& kernel, const Tensor& x, const Axes& axes, bool keepdim,
                           std::span<const Scalar> scalars = {}, uint16_t variant = 0);

/// How many elements of x[outer, reduced, inner] one part takes in, by shape and kind of device alone, so that results
/// don't depend on the load.
int64_t reduction_chunk(const Shape& x, DeviceKind kind);

/// x as [outer, reduced, inner] for one pass over the `reduced` axes (a bit each), the kept ones in their order: a view
/// where the strides allow it, else a copy.
Tensor as_reduction(const Tensor& x, unsigned reduced);

}  // namespace ashlar::forms

// Gradients of broadcasting.
#pragma once

#include "runtime/tensor.h"

namespace ashlar::recipes {

/// The gradient of "x of `shape` was broadcast to g's shape": sums g over the axes that were added or stretched.
/// Returns g itself when the shapes agree. Throws ShapeError when `shape` doesn't broadcast to g's shape.
Tensor sum_to_shape(const Tensor& g, const Shape& shape);

}  // namespace ashlar::recipes

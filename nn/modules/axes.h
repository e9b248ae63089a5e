// Options with a size for each axis, or one for all of them.
#pragma once

#include <string_view>

#include "runtime/tensor/shape.h"

namespace ashlar::nn {

/// One for each of `axes` axes. Throws ValueError naming `operation` on another number of sizes.
Shape for_each_axis(std::string_view operation, const Shape& given, int axes);

}  // namespace ashlar::nn

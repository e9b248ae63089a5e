// The functions of images of operators/interpolation.h, recorded.
#pragma once

#include "autograd/var.h"
#include "operators/interpolation.h"

namespace ashlar::recipes {

Var resampled_images(const Var& x, const std::vector<Resize>& resizes, const ResizeMode& mode);
Var resized(const Var& x, const Resizing& resizing, bool is_gradient);

}  // namespace ashlar::recipes

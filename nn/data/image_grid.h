// Many small images on one sheet.
#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

/// The images [n, h, w], [n, 1, h, w] or [n, 3, h, w], row by row with `columns` in each, `padding` pixels of zeros
/// around every one: [H, W] or, of three channels, [H, W, 3], as write_png() takes it. Dtype and device are those of
/// the images. Throws ShapeError, also without an image, ValueError unless columns ≥ 1 and padding ≥ 0.
Tensor image_grid(const Tensor& images, int64_t columns, int64_t padding = 2);

}  // namespace ashlar::nn

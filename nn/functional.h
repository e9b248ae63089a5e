// Functions that torch.nn.functional has and that are put together from the library's operators, beside those of
// ashlar/ad.h: windows over one axis, and paddings by name.
#pragma once

#include <cstdint>

#include "autograd/var.h"
#include "runtime/forms/forms.h"

namespace ashlar::nn {

/// torch's padding="valid" and "same".
enum class Padding : uint8_t {
  valid,  ///< none: windows lie within x
  same    ///< zeros, so that y has x's sizes; an odd one too many stands behind
};

/// conv1d() of x [n, in, l] or [in, l] with a padding by its name. Throws ValueError on Padding::same with a stride
/// other than 1, and what conv1d() throws.
Var conv1d(const Var& x, const Var& weight, const Var& bias, const Shape& stride, Padding padding,
           const Shape& dilation = {1}, int64_t groups = 1);
/// The same of x [n, in, h, w] or [in, h, w].
Var conv2d(const Var& x, const Var& weight, const Var& bias, const Shape& stride, Padding padding,
           const Shape& dilation = {1}, int64_t groups = 1);

/// The gradient of conv1d() by its input as a function: x [n, in, l] or [in, l], weight [in, out / groups, k], bias
/// [out] or undefined. Sizes are one number each. Throws ShapeError, ValueError.
Var conv_transpose1d(const Var& x, const Var& weight, const Var& bias = {}, const Shape& stride = {1},
                     const Shape& padding = {0}, const Shape& output_padding = {0}, int64_t groups = 1,
                     const Shape& dilation = {1});

/// The maximum of each window of x [n, c, l] or [c, l]; no stride: windows beside each other. NaN where one is. Throws
/// ShapeError, ValueError.
Var max_pool1d(const Var& x, const Shape& kernel_size, const Shape& stride = {}, const Shape& padding = {0},
               const Shape& dilation = {1}, bool ceil_mode = false);
/// The mean of each window, likewise.
Var avg_pool1d(const Var& x, const Shape& kernel_size, const Shape& stride = {}, const Shape& padding = {0},
               bool ceil_mode = false, bool count_include_pad = true);
/// Means and maxima of output_size windows that cover x together.
Var adaptive_avg_pool1d(const Var& x, const Shape& output_size);
Var adaptive_max_pool1d(const Var& x, const Shape& output_size);

}  // namespace ashlar::nn

// Functions that torch.nn.functional has beside those of ashlar/ad.h: paddings by name. Those that are operators
// (ashlar/ad.h) of the same arguments stand here, too.
#pragma once

#include <cstdint>

#include "ashlar/ad/convolution.h"
#include "ashlar/ad/pooling.h"
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

using ad::adaptive_avg_pool1d;
using ad::adaptive_max_pool1d;
using ad::avg_pool1d;
using ad::conv_transpose1d;
using ad::max_pool1d;

}  // namespace ashlar::nn

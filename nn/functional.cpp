#include "nn/functional.h"

#include <string>
#include <string_view>

#include "ashlar/ad.h"
#include "nn/modules/axes.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// What stands before and behind each axis, the last axis first, as pad() takes it.
Shape same_padding(std::string_view operation, const Shape& weight, const Shape& stride, const Shape& dilation) {
  Shape sides;
  for (int axis = stride.rank() - 1; axis >= 0; axis--) {
    if (stride[axis] != 1) {
      throw ValueError(operation, "Padding::same with a stride of " + std::to_string(stride[axis]), "a stride of 1",
                       "Give the padding as numbers");
    }
    const int64_t both = dilation[axis] * (weight[axis + 2] - 1);
    sides.push_back(both / 2);
    sides.push_back(both - both / 2);
  }
  return sides;
}

/// x, and what a convolution of it has to add on both sides alike.
struct Padded {
  Var x;
  Shape padding;
};
Padded padded(const char* operation, const Var& x, const Var& weight, const Shape& stride, Padding padding,
              const Shape& dilation) {
  const int axes = stride.rank();
  if (weight.rank() != axes + 2) {
    throw ShapeError(operation, "weight: " + weight.value().str(),
                     "[out, in / groups] and " + std::to_string(axes) + " sizes of the window", "Reshape it");
  }
  Shape none = Shape::filled(axes, 0);
  if (padding == Padding::valid) return {x, none};
  const Shape sides = same_padding(operation, weight.shape(), stride, dilation);
  bool is_even = true;
  for (int axis = 0; axis < axes; axis++) {
    none[axes - 1 - axis] = sides[2 * axis];
    is_even = is_even && sides[2 * axis] == sides[2 * axis + 1];
  }
  return is_even ? Padded{x, none} : Padded{ad::pad(x, sides, PadMode::constant), Shape::filled(axes, 0)};
}

}  // namespace

Var conv1d(const Var& x, const Var& weight, const Var& bias, const Shape& stride, Padding padding,
           const Shape& dilation, int64_t groups) {
  const Shape steps = for_each_axis("conv1d", stride, 1), apart = for_each_axis("conv1d", dilation, 1);
  const Padded input = padded("conv1d", x, weight, steps, padding, apart);
  return ad::conv1d(input.x, weight, bias, steps, input.padding, apart, groups);
}

Var conv2d(const Var& x, const Var& weight, const Var& bias, const Shape& stride, Padding padding,
           const Shape& dilation, int64_t groups) {
  const Shape steps = for_each_axis("conv2d", stride, 2), apart = for_each_axis("conv2d", dilation, 2);
  const Padded input = padded("conv2d", x, weight, steps, padding, apart);
  return ad::conv2d(input.x, weight, bias, steps, input.padding, apart, groups);
}

}  // namespace ashlar::nn

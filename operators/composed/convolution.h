// Convolutions over one and three axes, of those over images.
#pragma once

#include <algorithm>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/convolution.h"
#include "ashlar/ops/unfold.h"
#include "operators/composed/values.h"
#include "operators/window.h"

namespace ashlar::composed {

/// Throws ShapeError unless it has as many axes.
template <class T>
void check_window(const char* operation, const T& weight, int axes, const char* needed) {
  if (weight.shape().rank() != axes) throw ShapeError(operation, "weight: " + shown(weight), needed, "Reshape it");
}

template <class T>
T conv_transpose1d(const T& x, const T& weight, const T& bias, const Axes& stride, const Axes& padding,
                   const Axes& output_padding, int64_t groups, const Axes& dilation) {
  constexpr const char* kName = "conv_transpose1d";
  check_window(kName, weight, 3, "[in, out / groups, window]");
  return conv_transpose2d(as_rows(kName, x), weight.unsqueeze(-2), bias, in_row(kName, stride, 1, 1),
                          in_row(kName, padding, 0, 0), in_row(kName, output_padding, 0, 0), groups,
                          in_row(kName, dilation, 1, 1))
      .squeeze(-2);
}

/// y[n, o, d] = Σ_k conv2d(x[n, :, d stride + k dilation - padding], weight[o, :, k]): unfolded along the depth, the
/// frames under a window are channels of one image.
template <class T>
T conv3d(const T& given, const T& weight, const T& bias, const Axes& stride, const Axes& padding, const Axes& dilation,
         int64_t groups, Conv3dActivation activation) {
  constexpr const char* kName = "conv3d";
  check_window(kName, weight, 5, "[out, in / groups, three sizes of the window]");
  const Shape steps = sizes_of(kName, stride, {1, 1, 1}), border = sizes_of(kName, padding, {0, 0, 0}),
              gaps = sizes_of(kName, dilation, {1, 1, 1});
  const T x = as_volumes(kName, given, weight.size(1) * groups);
  const int64_t n = x.size(0), c = x.size(1), d = x.size(2), h = x.size(3), w = x.size(4);
  const int64_t out = weight.size(0), k = weight.size(2);
  const T under = unfold(x.reshape({n, c, d, h * w}), {k, 1}, {gaps[0], 1}, {border[0], 0}, {steps[0], 1});
  const int64_t depth = under.size(2) / std::max<int64_t>(h * w, 1);
  const T images = under.reshape({n, c * k, depth, h, w}).permute({0, 2, 1, 3, 4}).reshape({n * depth, c * k, h, w});
  const T frames = conv2d(images, weight.reshape({out, weight.size(1) * k, weight.size(3), weight.size(4)}), bias,
                          {steps[1], steps[2]}, {border[1], border[2]}, {gaps[1], gaps[2]}, groups,
                          static_cast<Conv2dActivation>(activation));
  const T y = frames.reshape({n, depth, out, frames.size(2), frames.size(3)}).permute({0, 2, 1, 3, 4});
  return given.shape().rank() == 4 ? y.squeeze(0) : y;
}

/// y[n, o, d stride + k dilation - padding] += conv_transpose2d(x[n, :, d], weight[:, o, k]): images with a channel for
/// each k, folded along the depth.
template <class T>
T conv_transpose3d(const T& given, const T& weight, const T& bias, const Axes& stride, const Axes& padding,
                   const Axes& output_padding, int64_t groups, const Axes& dilation) {
  constexpr const char* kName = "conv_transpose3d";
  check_window(kName, weight, 5, "[in, out / groups, three sizes of the window]");
  const Shape steps = sizes_of(kName, stride, {1, 1, 1}), border = sizes_of(kName, padding, {0, 0, 0}),
              more = sizes_of(kName, output_padding, {0, 0, 0}), gaps = sizes_of(kName, dilation, {1, 1, 1});
  const T x = as_volumes(kName, given, weight.size(0));
  check_groups(kName, groups, x.size(1), "x: " + shown(x));
  const int64_t n = x.size(0), c = x.size(1), d = x.size(2), h = x.size(3), w = x.size(4);
  const int64_t k = weight.size(2), out = weight.size(1) * groups;
  const int64_t depth = (d - 1) * steps[0] - 2 * border[0] + gaps[0] * (k - 1) + 1 + more[0];
  const T images = x.permute({0, 2, 1, 3, 4}).reshape({n * d, c, h, w});
  const T spread =
      conv_transpose2d(images, weight.reshape({c, weight.size(1) * k, weight.size(3), weight.size(4)}), T(),
                       {steps[1], steps[2]}, {border[1], border[2]}, {more[1], more[2]}, groups, {gaps[1], gaps[2]});
  const int64_t plane = spread.size(2) * spread.size(3);
  const T columns = spread.reshape({n, d, out * k, plane}).permute({0, 2, 1, 3}).reshape({n, out * k, d * plane});
  T y = fold(columns, {depth, plane}, {k, 1}, {gaps[0], 1}, {border[0], 0}, {steps[0], 1})
            .reshape({n, out, depth, spread.size(2), spread.size(3)});
  if (bias.defined()) y = add(y, bias.reshape({out, 1, 1, 1}));
  return given.shape().rank() == 4 ? y.squeeze(0) : y;
}

}  // namespace ashlar::composed

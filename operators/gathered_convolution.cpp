// What lies where in a frame.
#include "operators/gathered_convolution.h"

#include <algorithm>
#include <array>

#include "ashlar/ops/convolution.h"
#include "ashlar/ops/convolution_frame.h"
#include "ashlar/ops/reduction.h"
#include "runtime/launch/launch.h"
#include "runtime/support/rounding.h"

namespace ashlar {
namespace {

const KernelKey kF32{.elements = {DType::f32}};
// The CPU's vectors reach so far beyond the last output, and the bounds that Halide checks a plane more. A GPU's
// threads read what a tap reads.
constexpr int64_t kSlack = 128;

/// x[a, b, h, w] with its border, rows and columns that are read together side by side: [phases, a, b, rows, columns].
struct Frame {
  Tensor elements;  ///< all of them, and `slack` more, which are 0
  Pair strides;     ///< of the convolution that reads it
  int64_t a = 0, b = 0, rows = 0, columns = 0, slack = 0;

  int64_t plane() const { return rows * columns; }
  int64_t phase_step() const { return a * b * plane(); }
};

/// The frame that outputs of this size read. `reads_beyond`: whatever the tap, as many as a plane has will be read.
Frame frame_of(const Tensor& x, const Window& window, const Pair& outputs, bool reads_beyond) {
  Frame frame{{}, window.stride, x.size(0), x.size(1)};
  const auto side = [&](int axis) { return outputs[axis] + (window.extent(axis) - 1) / window.stride[axis]; };
  frame.rows = side(0);
  frame.columns = side(1);
  const int64_t phases = std::min(window.stride[0], window.extent(0)) * window.stride[1],
                size = frame.phase_step() * phases;
  const bool is_itself = !reads_beyond && phases == 1 && x.is_contiguous() && window.padding == Pair{0, 0} &&
                         frame.rows == x.size(2) && frame.columns == x.size(3) && x.device().kind != DeviceKind::cpu;
  if (is_itself) {
    frame.elements = x.reshape({x.numel()});
    return frame;
  }
  const bool is_cpu = x.device().kind == DeviceKind::cpu;
  frame.slack = reads_beyond || is_cpu ? kSlack + frame.plane() : 0;
  const int64_t whole = size + frame.slack;
  const Tensor all = Tensor::empty({whole}, DType::f32, x.device());
  if (frame.slack > 0) all.slice(0, size, whole).fill_(0);
  const Tensor out = all.slice(0, 0, size).reshape({phases, frame.a, frame.b, frame.rows, frame.columns});
  const std::array inputs{x};
  const std::array<Scalar, 4> scalars{window.stride[0], window.stride[1], window.padding[0], window.padding[1]};
  launch(kernels::convolution_frame, kF32, inputs, scalars, std::span(&out, 1));
  frame.elements = all;
  return frame;
}

/// offsets[(c, i, j)] for `channels`, `channel_step` apart.
Tensor offsets_of(const Frame& frame, const Window& window, int64_t channels, int64_t channel_step, bool is_flipped) {
  const Tensor offsets =
      Tensor::empty({channels * window.taps[0] * window.taps[1]}, DType::i32, frame.elements.device());
  const std::array<Scalar, 10> scalars{window.taps[0],     window.taps[1],     window.stride[0],    window.stride[1],
                                       window.dilation[0], window.dilation[1], int64_t{is_flipped}, frame.phase_step(),
                                       channel_step,       frame.columns};
  launch(kernels::convolution_offsets, {.elements = {DType::i32}}, {}, scalars, std::span(&offsets, 1));
  return offsets;
}

/// y[n, (g,o), p, q] = max(low, bias + Σ weight[g, o, t] · frame)
Tensor convolved(const Frame& frame, const Tensor& offsets, const Tensor& weight, const Tensor& bias,
                 const Pair& outputs, float low) {
  const int64_t groups = weight.size(0), rows = weight.size(1), images = frame.a;
  const Tensor y = Tensor::empty({images, groups * rows, outputs[0], outputs[1]}, DType::f32, weight.device());
  const bool is_cpu = weight.device().kind == DeviceKind::cpu;
  const int64_t image_step = frame.b * frame.plane();
  const std::array<Scalar, 7> scalars{image_step,
                                      frame.b / groups * frame.plane(),
                                      frame.columns,
                                      outputs[1],
                                      (outputs[0] - 1) * frame.columns + outputs[1] + frame.slack,
                                      int64_t{bias.defined()},
                                      low};
  // Images and groups stand along the third dimension of the grid, which CUDA limits.
  const int64_t at_once = is_cpu ? images : std::max<int64_t>(1, 65535 / groups);
  for (int64_t first = 0; first < images; first += at_once) {
    const int64_t count = std::min(at_once, images - first);
    const Tensor out = y.slice(0, first, first + count)
                           .reshape(is_cpu ? Shape{count * groups, rows, outputs[0], outputs[1]}
                                           : Shape{count * groups, rows, 1, outputs[0] * outputs[1]});
    const std::array inputs{frame.elements.slice(0, first * image_step), weight,
                            bias.defined() ? bias.contiguous() : frame.elements.slice(0, 0, 1), offsets};
    launch(kernels::convolution, kF32, inputs, scalars, std::span(&out, 1));
  }
  return y;
}

}  // namespace

Tensor convolved_gathered(const Tensor& x, const Tensor& weight, const Tensor& bias, const Window& window,
                          const Pair& outputs, float low, bool is_flipped) {
  const Frame frame = frame_of(x, window, outputs, false);
  const int64_t channels = weight.size(2) / (window.taps[0] * window.taps[1]);
  return convolved(frame, offsets_of(frame, window, channels, frame.plane(), is_flipped), weight, bias, outputs, low);
}

// Images lie beside each other in each channel, so that all of them are one sum.
Tensor weight_gradient_gathered(const Tensor& dy, const Tensor& x, const Window& window, const Pair& outputs,
                                int64_t groups) {
  const int64_t rows = dy.size(1) / groups, channels = x.size(1) / groups;
  const Frame frame = frame_of(x.permute({1, 0, 2, 3}), window, outputs, window.taps != Pair{1, 1});
  const Tensor offsets = offsets_of(frame, window, channels, frame.b * frame.plane(), false);
  Window plain;
  const Frame of_dy = frame_of(dy.permute({1, 0, 2, 3}), plain, {frame.rows, frame.columns}, false);
  const int64_t inner = frame.b * frame.plane(), taps = offsets.numel();
  const Tensor left = of_dy.elements.slice(0, 0, groups * rows * inner).reshape({groups, rows, inner});
  // So many shares of the sum that on a GPU there's work for all of it, and on a CPU each share stays in a cache (16 MB
  // of partial sums at most); the sizes alone say how many.
  constexpr int64_t kTile = 64, kTiles = 512, kPartialSums = 1 << 22;
  const int64_t tiles = groups * detail::over(rows, kTile) * detail::over(taps, kTile);
  const bool is_cpu = left.device().kind == DeviceKind::cpu;
  const int64_t most = is_cpu ? kPartialSums / (groups * rows * taps) : std::min<int64_t>(kTiles / tiles, 256);
  const int64_t least = is_cpu ? 1024 : 128;  // terms of a share
  const int64_t shares = std::clamp(std::min(most, inner / least), int64_t{1}, inner);
  const Tensor parts = Tensor::empty({shares * groups, rows, taps}, DType::f32, left.device());
  const std::array inputs{frame.elements, left, offsets};
  const std::array<Scalar, 2> scalars{channels * inner, shares};
  launch(kernels::convolution_weight, kF32, inputs, scalars, std::span(&parts, 1));
  return shares == 1 ? parts : sum(parts.reshape({shares, groups * rows, taps}), {0});
}

}  // namespace ashlar

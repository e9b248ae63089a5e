#include "operators/unfolded_convolution.h"

#include <algorithm>
#include <array>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/matmul.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/unfold.h"
#include "runtime/forms/forms.h"

namespace ashlar {
namespace {

/// x[n, c · taps, places]; of one tap and no border the images themselves.
Tensor windows_of(const Tensor& x, const Window& window) {
  if (window.taps == Pair{1, 1} && window.padding == Pair{0, 0}) {
    const Tensor read = subsampled(x, window.stride);
    return read.reshape({read.size(0), read.size(1), read.size(2) * read.size(3)});
  }
  return unfold(x, {window.taps[0], window.taps[1]}, {window.dilation[0], window.dilation[1]},
                {window.padding[0], window.padding[1]}, {window.stride[0], window.stride[1]});
}

/// Calls f(first, end, their windows) for as many images at a time as have windows that fit.
template <class Function>
void for_each_piece(const Tensor& x, const Window& window, int64_t places, Function f) {
  const int64_t images = x.size(0), of_image = x.size(1) * window.taps[0] * window.taps[1] * places;
  const int64_t at_once = std::clamp<int64_t>(kMostWindowElements / of_image, 1, images);
  for (int64_t first = 0; first < images; first += at_once) {
    const int64_t end = std::min(first + at_once, images);
    f(first, end, windows_of(x.slice(0, first, end), window));
  }
}

}  // namespace

Tensor convolved_unfolded(const Tensor& x, const Tensor& weight, const Window& window, const Pair& outputs) {
  const int64_t images = x.size(0), groups = weight.size(0), rows = weight.size(1), places = outputs[0] * outputs[1];
  const Tensor y = Tensor::empty({images, groups, rows, places}, DType::f32, x.device());
  for_each_piece(x, window, places, [&](int64_t first, int64_t end, const Tensor& windows) {
    const std::array operands{weight.unsqueeze(0), windows.reshape({end - first, groups, weight.size(2), places})};
    forms::contraction(kernels::matmul, operands, {}, {}, 0, y.slice(0, first, end));
  });
  return y.reshape({images, groups * rows, outputs[0], outputs[1]});
}

Tensor subsampled(const Tensor& x, const Pair& stride) {
  return x.slice(2, 0, x.size(2), stride[0]).slice(3, 0, x.size(3), stride[1]);
}

Tensor product_over_places(const Tensor& dy, const Tensor& x, int64_t groups) {
  const int64_t images = x.size(0), places = x.size(2) * x.size(3);
  const int64_t rows = dy.size(1) / groups, channels = x.size(1) / groups;
  const MatmulOptions of_rows{.transpose_b = true};
  // Either what each image gives is summed, or the images come beside each other first: whichever is less memory.
  if (images == 1 || rows * channels <= (rows + channels) * places) {
    const Tensor each =
        matmul(dy.reshape({images * groups, rows, places}), x.reshape({images * groups, channels, places}), of_rows);
    return images == 1 ? each : sum(each.reshape({images, groups, rows, channels}), {0});
  }
  const auto beside = [&](const Tensor& t, int64_t of_group) {
    return t.permute({1, 0, 2, 3}).reshape({groups, of_group, images * places});
  };
  return matmul(beside(dy, rows), beside(x, channels), of_rows);
}

Tensor weight_gradient_unfolded(const Tensor& dy, const Tensor& x, const Window& window, int64_t groups) {
  const int64_t height = dy.size(2), width = dy.size(3);
  Tensor total;
  for_each_piece(x, window, height * width, [&](int64_t first, int64_t end, const Tensor& windows) {
    const Tensor part = product_over_places(dy.slice(0, first, end),
                                            windows.reshape({end - first, windows.size(1), height, width}), groups);
    total = total.defined() ? add(total, part) : part;
  });
  return total;
}

}  // namespace ashlar

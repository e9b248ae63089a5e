// Windows of an image as the columns of a matrix, and back.
#include "ashlar/ops/unfold.h"

#include <array>

#include "operators/window.h"
#include "runtime/forms/check.h"
#include "runtime/forms/promotion.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

const KernelKey kF32{.elements = {DType::f32}};

}  // namespace

Tensor unfold(const Tensor& x, const Axes& kernel_size, const Axes& dilation, const Axes& padding,
              const Axes& stride) try {
  constexpr const char* kName = "unfold";
  const Tensor images = as_images(kName, forms::as_f32(kName, x));
  const Window window = window_of(kName, pair_of(kName, "kernel_size", kernel_size, 1, 1), stride, padding, dilation);
  const int64_t n = images.size(0), c = images.size(1);
  const Pair outputs{window.outputs(kName, 0, images.size(2)), window.outputs(kName, 1, images.size(3))};
  const Tensor y =
      Tensor::empty({n, c * window.taps[0] * window.taps[1], outputs[0] * outputs[1]}, DType::f32, x.device());
  if (y.numel() > 0 && images.numel() == 0) y.fill_(0);
  if (y.numel() > 0 && images.numel() > 0) {
    const std::array inputs{
        forms::as_declared(kernels::unfold_planes, 0, images, {n * c, images.size(2), images.size(3)})};
    const Tensor out = y.reshape({n * c, window.taps[0], window.taps[1], outputs[0], outputs[1]});
    launch(kernels::unfold_planes, kF32, inputs, window.scalars(), std::span(&out, 1));
  }
  return without_batch_unless(y, x.rank() == 4).to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("unfold");
}

Tensor fold(const Tensor& x, const Axes& output_size, const Axes& kernel_size, const Axes& dilation,
            const Axes& padding, const Axes& stride) try {
  constexpr const char* kName = "fold";
  const Tensor given = forms::as_f32(kName, x);
  if (x.rank() != 2 && x.rank() != 3) {
    throw ShapeError(kName, x.str(), "columns [n, c kh kw, places], or [c kh kw, places]", "Use reshape()");
  }
  const Tensor columns = x.rank() == 3 ? given : given.unsqueeze(0);
  const Window window = window_of(kName, pair_of(kName, "kernel_size", kernel_size, 1, 1), stride, padding, dilation);
  const Pair size = pair_of(kName, "output_size", output_size, 0, 0);
  const Pair outputs{window.outputs(kName, 0, size[0]), window.outputs(kName, 1, size[1])};
  const int64_t taps = window.taps[0] * window.taps[1], n = columns.size(0), c = columns.size(1) / taps;
  if (columns.size(1) != c * taps || columns.size(2) != outputs[0] * outputs[1]) {
    throw ShapeError(kName, x.str() + " for an image of " + output_size.str(),
                     "columns of " + Shape{n, c * taps, outputs[0] * outputs[1]}.str(),
                     "Check kernel_size, stride, padding and dilation");
  }
  const Tensor y = Tensor::empty({n, c, size[0], size[1]}, DType::f32, x.device());
  if (y.numel() > 0) {
    const std::array inputs{forms::as_declared(kernels::fold_planes, 0, columns,
                                               {n * c, window.taps[0], window.taps[1], outputs[0], outputs[1]})};
    const auto scalars = window.scalars(window.candidates(0), window.candidates(1));
    const Tensor out = y.reshape({n * c, size[0], size[1]});
    launch(kernels::fold_planes, kF32, inputs, scalars, std::span(&out, 1));
  }
  return without_batch_unless(y, x.rank() == 3).to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("fold");
}

}  // namespace ashlar

// prelu and glu: their operands as views that broadcast (generators/gated.cpp).
#include "operators/gated.h"

#include <array>

#include "ashlar/ops/gated.h"
#include "ashlar/ops/reduction.h"
#include "runtime/forms/broadcast.h"
#include "runtime/forms/check.h"
#include "runtime/forms/unrounded_reduction.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar {

Tensor prelu(const Tensor& x, const Tensor& weight) try {
  const std::array inputs{x, weight};
  forms::key_of(kernels::prelu, {.inputs = inputs});
  const int64_t channels = x.rank() > 1 ? x.shape()[1] : 1;
  if (weight.numel() != 1 && (weight.rank() != 1 || weight.numel() != channels)) {
    throw forms::shape_error(kernels::prelu, inputs, "weight of shape [1] or [" + std::to_string(channels) + "]",
                             "Give one weight, or one for each channel, which is axis 1 of x");
  }
  Shape shape = Shape::filled(x.rank(), 1);
  if (weight.numel() != 1) shape[1] = channels;
  const std::array operands{x, weight.reshape(shape)};
  return forms::Broadcast::call(kernels::prelu_by_element, {.inputs = operands})[0];
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("prelu");
}

Tensor prelu_slope(const Tensor& dy, const Tensor& x, const Tensor& weight) {
  return forms::Broadcast::call(kernels::prelu_slope, {.inputs = std::array{dy, x, weight}})[0];
}

Tensor prelu_weight_sums(const Tensor& dy, const Tensor& x, int64_t channels) {
  if (x.numel() == 0) return Tensor::zeros({channels}, DType::f32, x.device());
  const int64_t batch = channels == 1 ? 1 : x.size(0), space = x.numel() / (batch * channels);
  // Channels that lie side by side are columns; else each image's channel is a row.
  const bool are_columns = channels > 1 && space == 1;
  const Shape shape = are_columns ? Shape{1, batch, channels} : Shape{batch * channels, space, 1};
  const int64_t chunk = forms::reduction_chunk(shape, x.device().kind), parts = detail::over(shape[1], chunk);
  const Scalar scalar(chunk);
  const Tensor sums = Tensor::empty({shape[0], parts, shape[2]}, DType::f32, x.device());
  launch(kernels::prelu_sums, KernelKey{.elements = {DType::f32}},
         std::array{x.contiguous().reshape(shape), dy.contiguous().reshape(shape)}, std::span(&scalar, 1),
         std::span(&sums, 1));
  if (sums.numel() == channels) return sums.reshape({channels});
  return are_columns ? sum(sums, {0, 1}) : sum(sums.reshape({batch, channels, parts}), {0, 2});
}

Tensor glu_slope(const Tensor& dy, const Tensor& x, int64_t axis) {
  if (x.numel() == 0) return Tensor::zeros(x.shape(), DType::f32, x.device());
  int64_t outer = 1;
  for (int i = 0; i < (axis < 0 ? axis + x.rank() : axis); i++) outer *= x.shape()[i];
  const Shape lines{outer, 2, x.numel() / (2 * outer)};
  const std::array inputs{x.contiguous().reshape(lines), dy.contiguous().reshape({outer, lines[2]})};
  const Tensor dx = Tensor::empty(lines, DType::f32, x.device());
  launch(kernels::glu_slope, KernelKey{.elements = {DType::f32}}, inputs, {}, std::span(&dx, 1));
  return dx.reshape(x.shape());
}

Tensor glu(const Tensor& x, int64_t axis) try {
  forms::key_of(kernels::glu, {.inputs = std::span(&x, 1)});
  const int64_t size = x.size(axis);  // throws where there is no such axis
  if (size % 2 != 0) {
    throw forms::shape_error(kernels::glu, std::span(&x, 1), "an even size along axis " + std::to_string(axis),
                             "Pad it, or give the axis of the two halves");
  }
  const std::array halves{x.slice(axis, 0, size / 2), x.slice(axis, size / 2, size)};
  return forms::Broadcast::call(kernels::glu_by_element, {.inputs = halves})[0];
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("glu");
}

}  // namespace ashlar

// cummax: running maxima, and where they stand (generators/cumsum.cpp).
#include <array>

#include "ashlar/ops/compare.h"
#include "ashlar/ops/cumsum.h"
#include "ashlar/ops/maths.h"
#include "ashlar/ops/ternary.h"
#include "runtime/forms/check.h"
#include "runtime/memory/host_memory.h"

namespace ashlar {

CummaxResult cummax(const Tensor& x, int64_t axis) try {
  forms::key_of(kernels::cummax, {.inputs = std::span(&x, 1)});
  const int along = normalize_reduced_axis("cummax", axis, x.rank());
  if (x.rank() == 0 || x.numel() == 0) return {x.clone(), Tensor::zeros(x.shape(), DType::i64, x.device())};
  const Tensor values = forms::rows(kernels::running_max, std::span(&x, 1), along)[0];
  // Where an element is the largest so far, its place is the last such one until the next.
  Tensor is_largest = eq(x, values);
  if (is_floating(x.dtype())) is_largest = logical_or(is_largest, isnan(x));
  Shape shape = Shape::filled(x.rank(), 1);
  shape[along] = x.size(along);
  const Tensor places = Tensor::arange(x.size(along), DType::i64, x.device()).reshape(shape);
  const Tensor candidates = where(is_largest, places, Tensor::zeros({}, DType::i64, x.device()));
  return {values, forms::rows(kernels::running_max, std::span(&candidates, 1), along)[0]};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("cummax");
}

}  // namespace ashlar

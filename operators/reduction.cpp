// Reductions that are made of others: amax, amin, count_nonzero, any, all, norm (generators/reduction.cpp) and std
// (generators/variance.cpp).
#include "ashlar/ops/reduction.h"

#include <cmath>

#include "ashlar/ops/binary_maths.h"
#include "ashlar/ops/compare.h"
#include "ashlar/ops/maths.h"
#include "ashlar/ops/unary.h"
#include "ashlar/ops/variance.h"
#include "runtime/forms/check.h"
#include "runtime/forms/unrounded_reduction.h"
#include "runtime/memory/host_memory.h"

namespace ashlar {
namespace {

Tensor number(double value, const Tensor& like) { return Tensor::full({}, value, like.dtype(), like.device()); }

/// i64 counts. The kernel has f32, to which 16-bit floats are converted, and bool for all others.
Tensor nonzero_counts(const KernelInfo& kernel, const Tensor& x, const Axes& axes, bool keepdim) {
  forms::key_of(kernel, {.inputs = std::span(&x, 1)});
  const bool is_narrow_float = is_floating(x.dtype()) && x.dtype() != DType::f64;
  const Tensor counted = is_narrow_float ? x : x.to(DType::boolean);
  return forms::reduction(kernels::nonzero_sum, counted, axes, keepdim);
}

/// max |x[k]|, or min |x[k]|
Tensor extreme_norm(const Tensor& x, bool largest, const Axes& axes, bool keepdim) {
  return largest ? max(abs(x), axes, keepdim) : min(abs(x), axes, keepdim);
}

}  // namespace

Tensor amax(const Tensor& x, const Axes& axes, bool keepdim) { return max(x, axes, keepdim); }
Tensor amin(const Tensor& x, const Axes& axes, bool keepdim) { return min(x, axes, keepdim); }

Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keepdim) try {
  return nonzero_counts(kernels::count_nonzero, x, axes, keepdim);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("count_nonzero");
}

Tensor any(const Tensor& x, const Axes& axes, bool keepdim) try {
  return nonzero_counts(kernels::any, x, axes, keepdim).to(DType::boolean);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("any");
}

Tensor all(const Tensor& x, const Axes& axes, bool keepdim) try {
  const Tensor counts = nonzero_counts(kernels::all, x, axes, keepdim);
  int64_t elements = 1;
  for (const int64_t axis : axes) {
    if (x.rank() > 0) elements *= x.size(axis);
  }
  if (axes.empty()) elements = x.numel();
  return eq(counts, Tensor::full({}, elements, DType::i64, x.device()));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("all");
}

Tensor norm(const Tensor& x, double p, const Axes& axes, bool keepdim) try {
  forms::key_of(kernels::norm, {.inputs = std::span(&x, 1)});
  if (std::isinf(p)) return extreme_norm(x, p > 0, axes, keepdim);
  if (p == 0) return count_nonzero(x, axes, keepdim).to(x.dtype());
  const KernelInfo& kernel = p == 1 ? kernels::sum_of_abs : p == 2 ? kernels::sum_of_squares : kernels::sum_of_powers;
  const Scalar power(p);
  const Tensor total = forms::reduction_unrounded(kernel, x, axes, keepdim, std::span(&power, 1));
  const Tensor y = p == 1 ? total : p == 2 ? sqrt(total) : pow(total, number(1 / p, total));
  return y.to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("norm");
}

Tensor std(const Tensor& x, const Axes& axes, bool keepdim, double correction) try {
  const Scalar given(correction);
  return sqrt(forms::reduction_unrounded(kernels::var, x, axes, keepdim, std::span(&given, 1))).to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("std");
}

}  // namespace ashlar

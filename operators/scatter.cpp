// scatter: of several elements for one place the last one counts (generators/scatter.cpp).
#include "ashlar/ops/scatter.h"

#include <array>

#include "operators/indexing.h"
#include "operators/segments.h"
#include "runtime/forms/carrier.h"
#include "runtime/forms/check.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// The same of views with `axis` of extent n, by their carriers.
Tensor scattered(const Tensor& x, const AxisInMiddle& middle, int64_t n, const Tensor& index, const Tensor& src) {
  const KernelInfo& lines = kernels::scatter_lines;
  const Shape places{middle.outer, n, middle.inner};
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const KernelKey key{.elements = {forms::carrier(x.dtype())}};
  const Tensor to = forms::as_declared(lines, 0, forms::as_carrier(x), places);
  const Tensor at = forms::as_declared(lines, 1, index, middle.shape());
  const Tensor from = forms::as_declared(lines, 2, forms::as_carrier(src), middle.shape());
  const Tensor out = forms::as_carrier(y).reshape(places);
  if (walks_along_lines(kernels::scatter, x.device(), middle.extent)) {
    launch(lines, key, std::array{to, at, from}, {}, std::span(&out, 1));
    return y;
  }
  const Segments segments = sorted_segments({at}, middle.outer, n, middle.inner);
  launch(kernels::segment_last, key, std::array{to, from, segments.order, segments.starts}, {}, std::span(&out, 1));
  return y;
}

}  // namespace

Tensor scatter(const Tensor& x, const Tensor& index, const Tensor& src, int64_t axis) try {
  forms::key_of(kernels::scatter, {.inputs = std::array{x, index, src}});
  check_index_tensor("scatter", x, index);
  check_source("scatter", x, src);
  const AxisInMiddle middle("scatter", index.shape(), axis);
  const int along = normalize_reduced_axis("scatter", axis, x.rank());
  check_index_shape("scatter", x, index, along, "x");
  check_index_shape("scatter", src, index, -1, "src");
  if (index.numel() == 0) return x.clone();
  const int64_t extent = x.rank() == 0 ? 1 : x.shape()[along];
  check_indices("scatter", index, extent);
  if (x.numel() == 0) return x.clone();
  const Tensor seen = seen_by(x, index.shape(), along), source = seen_by(src, index.shape(), -1);
  const Tensor written = scattered(seen, middle, extent, index, source);
  if (seen.shape() == x.shape()) return written;
  const Tensor y = x.clone();
  seen_by(y, index.shape(), along).copy_(written);
  return y;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("scatter");
}

}  // namespace ashlar

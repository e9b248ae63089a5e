// scatter_add, index_add and the gradient of embedding: the terms of each place in the order of the source.
#include "ashlar/ops/scatter_add.h"

#include <algorithm>
#include <array>
#include <span>

#include "operators/indexing.h"
#include "operators/segments.h"
#include "runtime/forms/check.h"
#include "runtime/graph/graph.h"
#include "runtime/launch/launch.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// x in memory of its own on the CPU. One zero seen as many is filled in, the rest copied.
Tensor own_copy(const Tensor& x) {
  bool is_one = true;
  for (int i = 0; i < x.rank(); i++) is_one = is_one && (x.strides()[i] == 0 || x.shape()[i] == 1);
  if (is_one && !is_capturing(x.device())) {
    const std::span bytes(static_cast<const char*>(x.data()), size_of(x.dtype()));
    if (std::ranges::all_of(bytes, [](char byte) { return byte == 0; })) return Tensor::zeros(x.shape(), x.dtype());
  }
  return x.clone();
}

/// y[o,p,i] = x[o,p,i] + Σ_j [place of (o,j,i) = p] src[o,j,i], all of rank 3, in a dtype that the kernels sum in.
Tensor summed(const Tensor& x, const Places& places, const Tensor& src) {
  const int64_t outer = x.size(0), n = x.size(1), inner = x.size(2), count = src.size(1);
  const KernelKey key{.elements = {x.dtype()}};
  if (walks_along_lines(kernels::scatter_add, x.device(), count)) {
    const Tensor index = places.shared ? as_lines(places.index.reshape({1, count}), true, outer, inner) : places.index;
    const std::array<Scalar, 1> skip{places.skip};
    // On the CPU what is there already is added to.
    const bool is_cpu = x.device().kind == DeviceKind::cpu;
    const Tensor y = is_cpu ? own_copy(x) : Tensor::empty(x.shape(), x.dtype(), x.device());
    launch(kernels::scatter_add_lines, key, std::array{x, index, src}, skip, std::span(&y, 1));
    return y;
  }
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const Segments segments = sorted_segments(places, outer, n, inner);
  launch(kernels::segment_sums, key, std::array{x, src, segments.order, segments.starts}, {}, std::span(&y, 1));
  return y;
}

/// The same for operands of any strides and dtypes: 16-bit floats are summed in f32 and rounded once.
Tensor summed_in(const Tensor& x, const Shape& shape, Places places, const Tensor& src, const Shape& src_shape) {
  const bool is_narrow = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  const DType dtype = is_narrow ? DType::f32 : x.dtype();
  const KernelInfo& kernel = kernels::scatter_add_lines;
  const Tensor to = forms::as_declared(kernel, 0, x.to(dtype), shape);
  const Tensor from = forms::as_declared(kernel, 2, src.to(dtype), src_shape);
  if (!places.shared) places.index = forms::as_declared(kernel, 1, places.index, src_shape);
  return summed(to, places, from).to(x.dtype());
}

}  // namespace

Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& src, int64_t axis) {
  forms::key_of(kernels::scatter_add, {.inputs = std::array{x, index, src}});
  check_index_tensor("scatter_add", x, index);
  check_source("scatter_add", x, src);
  const AxisInMiddle middle("scatter_add", index.shape(), axis);
  const int along = normalize_reduced_axis("scatter_add", axis, x.rank());
  check_index_shape("scatter_add", x, index, along, "x");
  check_index_shape("scatter_add", src, index, -1, "src");
  if (index.numel() == 0) return x.clone();
  const int64_t extent = x.rank() == 0 ? 1 : x.shape()[along];
  check_indices("scatter_add", index, extent);
  if (extent == 0 || x.numel() == 0) return x.clone();
  const Tensor seen = seen_by(x, index.shape(), along), source = seen_by(src, index.shape(), -1);
  const Tensor sums = summed_in(seen, {middle.outer, extent, middle.inner}, {index}, source, middle.shape());
  if (seen.shape() == x.shape()) return sums.reshape(x.shape());
  const Tensor y = x.clone();
  seen_by(y, index.shape(), along).copy_(sums.reshape(seen.shape()));
  return y;
}

Tensor index_add(const Tensor& x, const Tensor& index, const Tensor& src, int64_t axis) {
  forms::key_of(kernels::index_add, {.inputs = std::array{x, index, src}});
  check_index_tensor("index_add", x, index);
  check_source("index_add", x, src);
  const AxisInMiddle middle("index_add", x.shape(), axis);
  Shape needed = x.shape();
  if (needed.rank() > 0) needed[middle.axis] = index.numel();
  if (index.rank() > 1 || src.shape() != needed || (x.rank() == 0 && index.numel() != 1)) {
    throw ShapeError("index_add", "x: " + x.str() + ", index: " + index.str() + ", src: " + src.str(),
                     "an index of rank 1 and a src of shape " + needed.str(), "Give src one slice for each index");
  }
  check_indices("index_add", index, middle.extent);
  if (x.numel() == 0 || src.numel() == 0) return x.clone();
  const Shape source{middle.outer, index.numel(), middle.inner};
  return summed_in(x, middle.shape(), {index.contiguous(), true}, src, source).reshape(x.shape());
}

Tensor embedding_grad(const Tensor& dy, const Tensor& index, int64_t n, int64_t padding_idx) {
  forms::key_of(kernels::embedding_grad, {.inputs = std::array{dy, index}});
  check_index_tensor("embedding_grad", dy, index);
  Shape rows = dy.shape();
  if (dy.rank() > 0) rows.erase(dy.rank() - 1);
  if (dy.rank() == 0 || rows != index.shape() || n < 0) {
    throw ShapeError("embedding_grad",
                     "dy: " + dy.str() + ", index: " + index.str() + ", " + std::to_string(n) + " rows",
                     "dy of the index' shape and columns behind it", "Pass the gradient of the embedding");
  }
  const int64_t columns = dy.size(-1), count = index.numel();
  check_indices("embedding_grad", index, n);
  if (n * columns == 0 || count == 0) return Tensor::zeros({n, columns}, dy.dtype(), dy.device());
  const Tensor zeros = Tensor::zeros({1, 1, 1}, dy.dtype(), dy.device()).broadcast_to({1, n, columns});
  return summed_in(zeros, {1, n, columns}, {index.contiguous(), true, padding_idx}, dy, {1, count, columns})
      .reshape({n, columns});
}

}  // namespace ashlar

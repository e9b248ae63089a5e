// Pooling of images, by the kernels of generators/pooling.cpp.
#include "ashlar/ops/pooling.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ashlar/ops/reduction.h"
#include "ashlar/ops/scatter_add.h"
#include "ashlar/ops/unary.h"
#include "operators/window.h"
#include "runtime/forms/check.h"
#include "runtime/forms/promotion.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// How a call's windows lie, to be given to a kernel.
struct Plane {
  uint16_t variant;  ///< generators/window.h's Windows
  Window window;
  Pair candidates;

  explicit Plane(const Window& sliding)
      : variant(0), window(sliding), candidates{sliding.candidates(0), sliding.candidates(1)} {}
  Plane(const char* operation, const Pair& size, const Pair& outputs) : variant(1), candidates{1, 1} {
    for (int axis = 0; axis < 2; axis++) {
      const AdaptiveAxis along(operation, size[axis], outputs[axis]);
      window.taps[axis] = along.taps;
      candidates[axis] = along.candidates;
    }
  }
  KernelKey key() const { return {.elements = {DType::f32}, .variant = variant}; }
};

/// The images of a call as planes, and their results as images again.
struct Planes {
  Tensor images;  ///< f32 [n, c, h, w]
  bool has_batch;
  DType dtype;

  Planes(const char* operation, const Tensor& x)
      : images(as_images(operation, forms::as_f32(operation, x))), has_batch(x.rank() == 4), dtype(x.dtype()) {}
  Pair size() const { return {images.size(2), images.size(3)}; }
  int64_t count() const { return images.size(0) * images.size(1); }
  Tensor input(const KernelInfo& kernel) const {
    return forms::as_declared(kernel, 0, images, {count(), images.size(2), images.size(3)});
  }
  Tensor result(const Tensor& planes, const Pair& outputs) const {
    const Tensor y = planes.reshape({images.size(0), images.size(1), outputs[0], outputs[1]});
    return has_batch ? y : y.squeeze(0);
  }
  Tensor empty(const Pair& outputs, DType of) const {
    return Tensor::empty({count(), outputs[0], outputs[1]}, of, images.device());
  }
};

std::vector<Scalar> scalars_of(const Window& window, std::initializer_list<int64_t> more) {
  const std::array<Scalar, 8> first = window.scalars();
  std::vector<Scalar> all(first.begin(), first.end());
  for (const int64_t value : more) all.emplace_back(value);
  return all;
}

struct Maxima {
  Tensor y, indices;
};

Maxima maxima(const char* operation, const Planes& x, const Plane& plane, const Pair& outputs) {
  if (x.images.size(2) * x.images.size(3) >= int64_t{1} << 31) {
    throw ShapeError(operation, x.images.str(), "images of fewer than 2^31 elements", "Cut them into parts");
  }
  const std::array made{x.empty(outputs, DType::f32), x.empty(outputs, DType::i64)};
  if (made[0].numel() > 0) {
    const std::array inputs{x.input(kernels::max_pool_planes)};
    launch(kernels::max_pool_planes, plane.key(), inputs, scalars_of(plane.window, {}), made);
  }
  return {x.result(made[0], outputs).to(x.dtype), x.result(made[1], outputs)};
}

Tensor spread_maxima(const char* operation, const Tensor& dy, const Tensor& indices, const Plane& plane,
                     const Pair& size) {
  const Planes grads(operation, dy);
  if (!indices.defined() || indices.dtype() != DType::i64 || indices.shape() != dy.shape() ||
      indices.device() != dy.device()) {
    throw ShapeError(operation, "dy: " + dy.str() + ", indices: " + indices.str(),
                     "indices of i64, of dy's shape and device", "Give those of the forward call");
  }
  if (dy.device().kind == DeviceKind::cpu) {
    // An image's elements are a line, whose task adds up what its windows give in their order.
    const Tensor dx = Tensor::zeros({grads.count(), size[0] * size[1], 1}, DType::f32);
    const Shape outputs{grads.count(), grads.size()[0] * grads.size()[1], 1};
    if (dx.numel() > 0 && outputs.numel() > 0) {
      const std::array inputs{dx, indices.contiguous().reshape(outputs), grads.images.contiguous().reshape(outputs)};
      const std::array<Scalar, 1> skip{-1};
      launch(kernels::scatter_add_lines, {.elements = {DType::f32}}, inputs, skip, std::span(&dx, 1));
    }
    return grads.result(dx, size).to(dy.dtype());
  }
  const Tensor dx = grads.empty(size, DType::f32);
  if (dx.numel() > 0) {
    const std::array inputs{grads.input(kernels::max_pool_planes_grad),
                            indices.contiguous().reshape({grads.count(), grads.size()[0], grads.size()[1]})};
    launch(kernels::max_pool_planes_grad, plane.key(), inputs,
           scalars_of(plane.window, {plane.candidates[0], plane.candidates[1]}), std::span(&dx, 1));
  }
  return grads.result(dx, size).to(dy.dtype());
}

Tensor averages(const Planes& x, const Plane& plane, const Pair& outputs, bool with_padding, int64_t divisor) {
  const Tensor y = x.empty(outputs, DType::f32);
  if (y.numel() > 0) {
    const std::array inputs{x.input(kernels::avg_pool_planes)};
    launch(kernels::avg_pool_planes, plane.key(), inputs, scalars_of(plane.window, {with_padding, divisor}),
           std::span(&y, 1));
  }
  return x.result(y, outputs).to(x.dtype);
}

Tensor spread_averages(const char* operation, const Tensor& dy, const Plane& plane, const Pair& size, bool with_padding,
                       int64_t divisor) {
  const Planes grads(operation, dy);
  const Tensor dx = grads.empty(size, DType::f32);
  if (dx.numel() > 0) {
    const std::array inputs{grads.input(kernels::avg_pool_planes_grad)};
    launch(kernels::avg_pool_planes_grad, plane.key(), inputs,
           scalars_of(plane.window, {with_padding, divisor, plane.candidates[0], plane.candidates[1]}),
           std::span(&dx, 1));
  }
  return grads.result(dx, size).to(dy.dtype());
}

/// Throws ShapeError unless dy has as many outputs as images of `size` give.
void check_outputs(const char* operation, const Tensor& dy, const Pair& needed) {
  if (dy.rank() >= 3 && dy.size(-2) == needed[0] && dy.size(-1) == needed[1]) return;
  throw ShapeError(operation, "dy: " + dy.str(),
                   "as many outputs as the forward call has: " + Shape{needed[0], needed[1]}.str(),
                   "Check input_size and the window");
}

Pair adaptive_outputs(const char* operation, const Shape& output_size) {
  if (output_size.empty()) {
    throw ValueError(operation, "no output_size", "the size of the result", "Give it as {height, width}");
  }
  return pair_of(operation, "output_size", output_size, 1, 1);
}

/// Runs `work`; what the host has no room for becomes OutOfMemory.
template <class Work>
auto guarded(const char* operation, Work work) {
  try {
    return work(operation);
  } catch (const std::bad_alloc&) {
    detail::throw_out_of_host_memory(operation);
  }
}

}  // namespace

MaxPool2dWithIndicesResult max_pool2d_with_indices(const Tensor& x, const Axes& kernel_size, const Axes& stride,
                                                   const Axes& padding, const Axes& dilation, bool ceil_mode) {
  return guarded("max_pool2d", [&](const char* name) -> MaxPool2dWithIndicesResult {
    const Pooling pooling(name, kernel_size, stride, padding, dilation, ceil_mode);
    const Planes planes(name, x);
    const Pair outputs{pooling.outputs(name, 0, planes.size()[0]), pooling.outputs(name, 1, planes.size()[1])};
    const auto [y, indices] = maxima(name, planes, Plane(pooling.window), outputs);
    return {y, indices};
  });
}

Tensor max_pool2d_grad(const Tensor& dy, const Tensor& indices, const Axes& input_size, const Axes& kernel_size,
                       const Axes& stride, const Axes& padding, const Axes& dilation, bool ceil_mode) {
  return guarded("max_pool2d_grad", [&](const char* name) {
    const Pooling pooling(name, kernel_size, stride, padding, dilation, ceil_mode);
    const Pair size = pair_of(name, "input_size", input_size, -1, 0);
    check_outputs(name, dy, {pooling.outputs(name, 0, size[0]), pooling.outputs(name, 1, size[1])});
    return spread_maxima(name, dy, indices, Plane(pooling.window), size);
  });
}

AdaptiveMaxPool2dWithIndicesResult adaptive_max_pool2d_with_indices(const Tensor& x, const Axes& output_size) {
  return guarded("adaptive_max_pool2d", [&](const char* name) -> AdaptiveMaxPool2dWithIndicesResult {
    const Pair outputs = adaptive_outputs(name, output_size);
    const Planes planes(name, x);
    const auto [y, indices] = maxima(name, planes, Plane(name, planes.size(), outputs), outputs);
    return {y, indices};
  });
}

Tensor adaptive_max_pool2d_grad(const Tensor& dy, const Tensor& indices, const Axes& input_size) {
  return guarded("adaptive_max_pool2d_grad", [&](const char* name) {
    const Pair size = pair_of(name, "input_size", input_size, -1, 1);
    return spread_maxima(name, dy, indices, Plane(name, size, Planes(name, dy).size()), size);
  });
}

Tensor avg_pool2d(const Tensor& x, const Axes& kernel_size, const Axes& stride, const Axes& padding, bool ceil_mode,
                  bool count_include_pad, int64_t divisor_override) {
  return guarded("avg_pool2d", [&](const char* name) {
    const Pooling pooling(name, kernel_size, stride, padding, {}, ceil_mode);
    const Planes planes(name, x);
    const Pair outputs{pooling.outputs(name, 0, planes.size()[0]), pooling.outputs(name, 1, planes.size()[1])};
    return averages(planes, Plane(pooling.window), outputs, count_include_pad, divisor_override);
  });
}

Tensor avg_pool2d_grad(const Tensor& dy, const Axes& input_size, const Axes& kernel_size, const Axes& stride,
                       const Axes& padding, bool ceil_mode, bool count_include_pad, int64_t divisor_override) {
  return guarded("avg_pool2d_grad", [&](const char* name) {
    const Pooling pooling(name, kernel_size, stride, padding, {}, ceil_mode);
    const Pair size = pair_of(name, "input_size", input_size, -1, 0);
    check_outputs(name, dy, {pooling.outputs(name, 0, size[0]), pooling.outputs(name, 1, size[1])});
    return spread_averages(name, dy, Plane(pooling.window), size, count_include_pad, divisor_override);
  });
}

Tensor adaptive_avg_pool2d(const Tensor& x, const Axes& output_size) {
  return guarded("adaptive_avg_pool2d", [&](const char* name) {
    const Pair outputs = adaptive_outputs(name, output_size);
    const Planes planes(name, x);
    const Plane whole(name, planes.size(), outputs);
    if (outputs == Pair{1, 1}) return mean(x, {-2, -1}, true);
    // Of long windows a GPU adds up the columns first, which lie side by side.
    constexpr int64_t kLongWindow = 6;
    if (x.device().kind != DeviceKind::cpu && whole.window.taps[1] > kLongWindow) {
      const Pair down{outputs[0], planes.size()[1]};
      Planes exact = planes;
      exact.dtype = DType::f32;  // rounded once, in the end
      const Planes columns(name, averages(exact, Plane(name, planes.size(), down), down, false, 0));
      return averages(columns, Plane(name, down, outputs), outputs, false, 0).to(x.dtype());
    }
    return averages(planes, whole, outputs, false, 0);
  });
}

Tensor adaptive_avg_pool2d_grad(const Tensor& dy, const Axes& input_size) {
  return guarded("adaptive_avg_pool2d_grad", [&](const char* name) {
    const Pair size = pair_of(name, "input_size", input_size, -1, 1);
    const Planes grads(name, dy);
    const Plane plane(name, size, grads.size());
    if (dy.device().kind == DeviceKind::cpu && grads.size() == Pair{1, 1}) {
      // All elements of an image get the same.
      const Tensor share = affine(grads.images, 1.0 / static_cast<double>(size[0] * size[1]), 0);
      return grads.result(share.broadcast_to({share.size(0), share.size(1), size[0], size[1]}).clone(), size)
          .to(dy.dtype());
    }
    return spread_averages(name, dy, plane, size, false, 0);
  });
}

}  // namespace ashlar

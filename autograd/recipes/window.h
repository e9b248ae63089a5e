// Gradients of what slides a window over images.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// The height and width of images, or of filters.
inline Shape image_size(const Shape& images) { return {images[images.rank() - 2], images.back()}; }

/// y = relu(z): dz = dy where y > 0. An undefined y: no activation, dz = dy.
template <class T>
T activated_grad(const T& dy, const T& y);

/// Σ dy over all axes but the channels', the third from the end: [channels].
template <class T>
T channel_sums(const T& dy, const Shape& shape);

/// conv2d without bias and activation.
template <class T>
T conv2d_without_bias(const T& x, const T& weight, const Shape& stride, const Shape& padding, const Shape& dilation,
                      int64_t groups);

/// The gradients {dx, dweight, dbias} of conv1d, by those of conv2d; undefined where not needed.
template <class T>
std::vector<T> conv1d_grad(const T& dy, const T& x, const T& weight, const T& y, const Shape& bias, const Shape& stride,
                           const Shape& padding, const Shape& dilation, int64_t groups, Needs needs);

/// x[…, h, w] at indices h · width + w of each image.
template <class T>
T at_pooled_places(const T& x, const Tensor& indices);

}  // namespace ashlar::recipes

#include "autograd/recipes/window.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

template <class T>
T activated_grad(const T& dy, const T& y) {
  return y.defined() ? relu_grad(dy, y) : dy;
}

template <class T>
T channel_sums(const T& dy, const Shape& shape) {
  const int channels = dy.rank() - 3;
  Axes others;
  for (int i = 0; i < dy.rank(); i++) {
    if (i != channels) others.push_back(i);
  }
  return sum(dy, others).reshape(shape);
}

template <class T>
T conv2d_without_bias(const T& x, const T& weight, const Shape& stride, const Shape& padding, const Shape& dilation,
                      int64_t groups) {
  return conv2d(x, weight, T(), stride, padding, dilation, groups);
}

template <class T>
T at_pooled_places(const T& x, const Tensor& indices) {
  const auto flat = [](Shape shape) {
    const int64_t width = shape.back();
    shape.erase(shape.rank() - 1);
    shape[shape.rank() - 1] *= width;
    return shape;
  };
  return gather(x.reshape(flat(x.shape())), indices.reshape(flat(indices.shape())), -1).reshape(indices.shape());
}

template <class T>
std::vector<T> conv1d_grad(const T& dy, const T& x, const T& weight, const T& y, const Shape& bias, const Shape& stride,
                           const Shape& padding, const Shape& dilation, int64_t groups, Needs needs) {
  const auto along = [](const Shape& given, int64_t across) { return given.empty() ? given : Shape{across, given[0]}; };
  const Shape steps = along(stride, 1), borders = along(padding, 0), gaps = along(dilation, 1);
  const T dz = activated_grad(dy, y).unsqueeze(-2), images = x.unsqueeze(-2), filters = weight.unsqueeze(-2);
  std::vector<T> gradients(3);
  if (needs(0)) {
    gradients[0] = conv2d_input(dz, filters, image_size(images.shape()), steps, borders, gaps, groups).squeeze(-2);
  }
  if (needs(1)) {
    gradients[1] = conv2d_weight(dz, images, image_size(filters.shape()), steps, borders, gaps, groups).squeeze(-2);
  }
  if (bias.rank() == 1 && needs(2)) gradients[2] = channel_sums(dz, bias);
  return gradients;
}

template std::vector<Tensor> conv1d_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Shape&,
                                         const Shape&, const Shape&, const Shape&, int64_t, Needs);
template std::vector<Var> conv1d_grad(const Var&, const Var&, const Var&, const Var&, const Shape&, const Shape&,
                                      const Shape&, const Shape&, int64_t, Needs);
template Tensor at_pooled_places(const Tensor&, const Tensor&);
template Var at_pooled_places(const Var&, const Tensor&);
template Tensor activated_grad(const Tensor&, const Tensor&);
template Var activated_grad(const Var&, const Var&);
template Tensor channel_sums(const Tensor&, const Shape&);
template Var channel_sums(const Var&, const Shape&);
template Tensor conv2d_without_bias(const Tensor&, const Tensor&, const Shape&, const Shape&, const Shape&, int64_t);
template Var conv2d_without_bias(const Var&, const Var&, const Shape&, const Shape&, const Shape&, int64_t);

}  // namespace ashlar::recipes

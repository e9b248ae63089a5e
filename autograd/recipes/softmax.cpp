#include "autograd/recipes/softmax.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

/// `shape` with one element along `axis`. Rank 0 is a row of one element.
Shape with_one(Shape shape, int64_t axis) {
  if (shape.rank() > 0) shape[normalize_axis("softmax", axis, shape.rank())] = 1;
  return shape;
}

/// Σ a b along `axis`, which stays.
template <class T>
T dot(const T& a, const T& b, int64_t axis) {
  return mul_to_shape(a, b, with_one(a.shape(), axis));
}

}  // namespace

template <class T>
T softmax_grad_of_y(const T& ddx, const T& dy, const T& y, int64_t axis) {
  return sub(mul(ddx, sub(dy, dot(dy, y, axis))), mul(dy, dot(ddx, y, axis)));
}

template <class T>
T log_softmax_grad_of_dy(const T& ddx, const T& y, int64_t axis) {
  return sub(ddx, dot(ddx, exp(y), axis));
}

template <class T>
T log_softmax_grad_of_y(const T& ddx, const T& dy, const T& y, int64_t axis) {
  return neg(mul(mul(ddx, exp(y)), sum_to_shape(dy, with_one(dy.shape(), axis))));
}

template <class T>
T cross_entropy_grad_of_logits(const T& ddlogits, const T& logits, const T& dloss, int64_t axis) {
  const T weight = dloss.reshape(with_one(logits.shape(), axis)).to(logits.dtype());
  return softmax_grad(mul(ddlogits, weight), softmax(logits, axis), axis);
}

template <class T>
T cross_entropy_grad_of_dloss(const T& ddlogits, const T& logits, const Tensor& labels, const Shape& loss,
                              int64_t axis) {
  const T one(Tensor::ones(loss, DType::f32, logits.device()));
  const T slope = cross_entropy_grad(logits, labels, one, axis);
  return dot(ddlogits.to(DType::f32), slope.to(DType::f32), axis).reshape(loss);
}

template Tensor softmax_grad_of_y(const Tensor&, const Tensor&, const Tensor&, int64_t);
template Var softmax_grad_of_y(const Var&, const Var&, const Var&, int64_t);
template Tensor log_softmax_grad_of_dy(const Tensor&, const Tensor&, int64_t);
template Var log_softmax_grad_of_dy(const Var&, const Var&, int64_t);
template Tensor log_softmax_grad_of_y(const Tensor&, const Tensor&, const Tensor&, int64_t);
template Var log_softmax_grad_of_y(const Var&, const Var&, const Var&, int64_t);
template Tensor cross_entropy_grad_of_logits(const Tensor&, const Tensor&, const Tensor&, int64_t);
template Var cross_entropy_grad_of_logits(const Var&, const Var&, const Var&, int64_t);
template Tensor cross_entropy_grad_of_dloss(const Tensor&, const Tensor&, const Tensor&, const Shape&, int64_t);
template Var cross_entropy_grad_of_dloss(const Var&, const Var&, const Tensor&, const Shape&, int64_t);

}  // namespace ashlar::recipes

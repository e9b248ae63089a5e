#include "autograd/recipes/losses.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/values.h"
#include "operators/losses.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

const LossKernels& kernels_of(LossKind loss) {
  switch (loss) {
    case LossKind::mse:
      return kMse;
    case LossKind::l1:
      return kL1;
    case LossKind::smooth_l1:
      return kSmoothL1;
    case LossKind::huber:
      return kHuber;
    case LossKind::bce:
      return kBce;
    case LossKind::bce_with_logits:
      return kBceWithLogits;
    case LossKind::kl_div_of_target:
      return kKlDiv;
    case LossKind::hinge:
      return kHingeEmbedding;
    default:
      return kKlDivOfLogs;
  }
}

bool is_symmetric(LossKind loss) { return loss <= LossKind::huber; }

/// The terms' slope by the input.
template <class T>
T slope_of(LossKind loss, const T& x, const T& t, double option) {
  switch (loss) {
    case LossKind::mse:
      return affine(sub(x, t), 2.0, 0.0);
    case LossKind::l1:
      return sign(sub(x, t));
    case LossKind::smooth_l1:
      return option == 0 ? T(sign(sub(x, t))) : T(clamp(affine(sub(x, t), 1 / option, 0.0), -1.0, 1.0));
    case LossKind::huber:
      return clamp(sub(x, t), -option, option);
    case LossKind::bce:
      return div(sub(x, t), mul(x, affine(x, -1.0, 1.0)));
    case LossKind::bce_with_logits:
      return sub(sigmoid(x), t);
    case LossKind::kl_div_of_target:
      return neg(t);
    case LossKind::hinge: {
      const Tensor &label = value_of(t), &at = value_of(x);
      const Tensor is_other = logical_and(eq(label, number(-1.0, label)), lt(at, number(option, at)));
      return T(sub(eq(label, number(1.0, label)).to(DType::f32), is_other.to(DType::f32)));
    }
    default:
      return neg(exp(t));
  }
}

/// The terms' slope by the target, of those that aren't symmetric.
template <class T>
T target_slope_of(LossKind loss, const T& x, const T& t) {
  switch (loss) {
    case LossKind::bce:  // logarithms held at -100, as in the loss
      return sub(clamp(log1p(neg(x)), -100.0, 0.0), clamp(log(x), -100.0, 0.0));
    case LossKind::bce_with_logits:
      return neg(x);
    case LossKind::kl_div_of_target:
      return sub(affine(log(t), 1.0, 1.0), x);
    default:
      return mul(exp(t), sub(affine(t, 1.0, 1.0), x));
  }
}

/// Of the slopes: times dy, in `shape`.
template <class T>
T times_upstream(const T& dy, const T& slope, double scale, const Shape& shape, DType dtype) {
  return sum_to_shape(mul(affine(dy.to(DType::f32), scale, 0.0), slope), shape).to(dtype);
}

double scale_of(int reduction, int64_t count) {
  return reduction == 1 && count > 0 ? 1 / static_cast<double>(count) : 1.0;
}

template <class T>
T composed_grad(const T& dy, const T& slope, int reduction, const Shape& shape, DType dtype) {
  return times_upstream(dy, slope, scale_of(reduction, slope.numel()), shape, dtype);
}

Tensor fused_grad(LossKind loss, const Tensor& dy, const Tensor& x, const Tensor& t, double option, int reduction) {
  const LossKernels& kernels = kernels_of(loss);
  const bool has_option = kernels.terms.count(Argument::Role::scalar) > 0;
  const std::span<const double> options(&option, has_option ? 1 : 0);
  return loss_slope(kernels, dy, x, t, options, reduction);
}

}  // namespace

template <class T>
T loss_input_grad(LossKind loss, const T& dy, const T& input, const T& target, double option, int reduction) {
  if constexpr (std::same_as<T, Tensor>) {
    const Tensor dx = fused_grad(loss, dy, input, target, option, reduction);
    return sum_to_shape(dx, input.shape()).to(input.dtype());
  } else {
    const T slope = slope_of(loss, input.to(DType::f32), target.to(DType::f32), option);
    const Shape shape = broadcast("loss", input.shape(), target.shape());
    return composed_grad(dy, slope.broadcast_to(shape), reduction, input.shape(), input.dtype());
  }
}

template <class T>
T loss_target_grad(LossKind loss, const T& dy, const T& input, const T& target, double option, int reduction) {
  if constexpr (std::same_as<T, Tensor>) {
    if (is_symmetric(loss)) {
      const Tensor dx = fused_grad(loss, dy, input, target, option, reduction);
      return sum_to_shape(ashlar::neg(dx), target.shape()).to(target.dtype());
    }
  }
  const T x = input.to(DType::f32), t = target.to(DType::f32);
  const T slope = is_symmetric(loss) ? T(neg(slope_of(loss, x, t, option))) : target_slope_of(loss, x, t);
  const Shape shape = broadcast("loss", x.shape(), t.shape());
  return composed_grad(dy, slope.broadcast_to(shape), reduction, target.shape(), target.dtype());
}

template Tensor loss_input_grad(LossKind, const Tensor&, const Tensor&, const Tensor&, double, int);
template Var loss_input_grad(LossKind, const Var&, const Var&, const Var&, double, int);
template Tensor loss_target_grad(LossKind, const Tensor&, const Tensor&, const Tensor&, double, int);
template Var loss_target_grad(LossKind, const Var&, const Var&, const Var&, double, int);

}  // namespace ashlar::recipes

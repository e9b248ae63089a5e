#include "autograd/recipes/losses.h"

#include <array>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/values.h"
#include "operators/losses.h"
#include "runtime/forms/broadcast.h"

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

template <class T>
T composed_grad(const T& dy, const T& slope, int reduction, const Shape& input, const Shape& shape, DType dtype) {
  return times_upstream(dy, slope, loss_scale(reduction, input, slope.numel()), shape, dtype);
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
    return composed_grad(dy, slope.broadcast_to(shape), reduction, input.shape(), input.shape(), input.dtype());
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
  return composed_grad(dy, slope.broadcast_to(shape), reduction, input.shape(), target.shape(), target.dtype());
}

namespace {

/// dL/d(term) of terms that are weighted and then reduced.
template <class T>
T upstream_of_terms(const T& dy, const T& input, const T& target, const T& weight, int reduction) {
  const Shape terms = broadcast("binary_cross_entropy", input.shape(), target.shape());
  const Shape all = broadcast("binary_cross_entropy", terms, weight.shape());
  const T each = affine(dy.to(DType::f32), loss_scale(reduction, all, all.numel()), 0.0).broadcast_to(all);
  return sum_to_shape(mul(each, weight.to(DType::f32)), terms);
}

/// Logits and what they are compared with, in f32 and broadcast by operators, and dL/d(term).
template <class T>
struct WeightedLogits {
  T x, t, weight, pos_weight, upstream;

  WeightedLogits(const T& dy, const T& input, const T& target, const T& factor, const T& positive, int reduction)
      : x(input.to(DType::f32)),
        t(target.to(DType::f32)),
        weight(given(factor, input)),
        pos_weight(given(positive, input)) {
    Shape all;
    for (const T& one : {x, t, weight, pos_weight}) all = broadcast("loss", all, one.shape());
    upstream = affine(dy.to(DType::f32), loss_scale(reduction, all, all.numel()), 0.0).broadcast_to(all);
  }
  static T given(const T& weight, const T& beside) {
    return weight.defined() ? T(weight.to(DType::f32)) : T(weight_or_one({}, value_of(beside)));
  }
};

}  // namespace

template <class T>
T bce_input_grad(const T& dy, const T& input, const T& target, const T& weight, int reduction) {
  if (!weight.defined()) return loss_input_grad(LossKind::bce, dy, input, target, 0.0, reduction);
  const T upstream = upstream_of_terms(dy, input, target, weight, reduction);
  return loss_input_grad(LossKind::bce, upstream, input, target, 0.0, 0);
}

template <class T>
T bce_target_grad(const T& dy, const T& input, const T& target, const T& weight, int reduction) {
  if (!weight.defined()) return loss_target_grad(LossKind::bce, dy, input, target, 0.0, reduction);
  const T upstream = upstream_of_terms(dy, input, target, weight, reduction);
  return loss_target_grad(LossKind::bce, upstream, input, target, 0.0, 0);
}

// weight ((1 - t) - (1 + (pos_weight - 1) t) sigmoid(-x))
template <class T>
T bce_with_logits_input_grad(const T& dy, const T& input, const T& target, const T& weight, const T& pos_weight,
                             int reduction) {
  if (!weight.defined() && !pos_weight.defined()) {
    return loss_input_grad(LossKind::bce_with_logits, dy, input, target, 0.0, reduction);
  }
  const WeightedLogits<T> of(dy, input, target, weight, pos_weight, reduction);
  if constexpr (std::same_as<T, Tensor>) {
    const std::array factors{of.upstream, of.x, of.t, of.weight, of.pos_weight};
    const Tensor dx = forms::Broadcast::call(kernels::bce_with_logits_weighted_slope, {.inputs = factors})[0];
    return sum_to_shape(dx, input.shape()).to(input.dtype());
  } else {
    const T positive = affine(mul(affine(of.pos_weight, 1.0, -1.0), of.t), 1.0, 1.0);
    const T slope = sub(affine(of.t, -1.0, 1.0), mul(positive, sigmoid(neg(of.x))));
    return sum_to_shape(mul(of.upstream, mul(of.weight, slope)), input.shape()).to(input.dtype());
  }
}

// -weight (x + (pos_weight - 1) ln sigmoid(x))
template <class T>
T bce_with_logits_target_grad(const T& dy, const T& input, const T& target, const T& weight, const T& pos_weight,
                              int reduction) {
  if (!weight.defined() && !pos_weight.defined()) {
    return loss_target_grad(LossKind::bce_with_logits, dy, input, target, 0.0, reduction);
  }
  const WeightedLogits<T> of(dy, input, target, weight, pos_weight, reduction);
  const T slope = neg(add(of.x, mul(affine(of.pos_weight, 1.0, -1.0), logsigmoid(of.x))));
  return sum_to_shape(mul(of.upstream, mul(of.weight, slope)), target.shape()).to(target.dtype());
}

template Tensor loss_input_grad(LossKind, const Tensor&, const Tensor&, const Tensor&, double, int);
template Var loss_input_grad(LossKind, const Var&, const Var&, const Var&, double, int);
template Tensor loss_target_grad(LossKind, const Tensor&, const Tensor&, const Tensor&, double, int);
template Var loss_target_grad(LossKind, const Var&, const Var&, const Var&, double, int);

template Tensor bce_input_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int);
template Var bce_input_grad(const Var&, const Var&, const Var&, const Var&, int);
template Tensor bce_target_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int);
template Var bce_target_grad(const Var&, const Var&, const Var&, const Var&, int);
template Tensor bce_with_logits_input_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                           int);
template Var bce_with_logits_input_grad(const Var&, const Var&, const Var&, const Var&, const Var&, int);
template Tensor bce_with_logits_target_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                            int);
template Var bce_with_logits_target_grad(const Var&, const Var&, const Var&, const Var&, const Var&, int);

}  // namespace ashlar::recipes

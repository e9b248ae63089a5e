#include "autograd/recipes/norm.h"

#include "ashlar/ops.h"
#include "autograd/recipes/reduce.h"
#include "operators/norm_passes.h"

namespace ashlar::recipes {

Tensor norm_weight_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd, int64_t axis) {
  return sum(norm_weight_sums(dy, x, rstd, mean, axis), {0, 1}).to(x.dtype());
}

Tensor sum_to_axis(const Tensor& dy, int64_t axis) {
  if (dy.rank() <= 1) return dy.reshape({dy.numel()});
  Shape others;
  for (int i = 0; i < dy.rank(); i++) {
    if (i != normalize_reduced_axis("sum_to_axis", axis, dy.rank())) others.push_back(i);
  }
  return sum(dy, others);
}

namespace {

/// {dx, dweight, dbias} where the mean is one of each channel (`groups` 0), or of each group of each image.
std::vector<Tensor> normalised_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& weight, int64_t groups, bool of_constants) {
  const int64_t batch = x.size(0), channels = x.size(1);
  if (x.numel() == 0) {
    const Tensor none = Tensor::zeros({channels}, x.dtype(), x.device());
    return {Tensor::zeros_like(x), none, none.clone()};
  }
  const bool by_group = groups > 0;
  const int64_t in_group = by_group ? channels / groups : channels, outer = by_group ? groups : 1;
  const int64_t space = x.numel() / (batch * channels);
  const Shape shape{batch, outer, in_group, space};
  const Tensor dys = dy.to(DType::f32).contiguous(), xs = x.to(DType::f32).contiguous();
  const Tensor scale = weight.defined() ? weight.to(DType::f32) : weight;
  const auto weighted = [&](const Tensor& t) { return scale.defined() ? mul(t, scale) : t; };
  // As they broadcast to [batch, channels], and to `shape`.
  const auto of_channels = [&](const Tensor& t) {
    return by_group ? t.reshape({batch, groups, 1}).broadcast_to({batch, groups, in_group}).reshape({batch, channels})
                    : t.reshape({1, channels});
  };
  const auto of_elements = [&](const Tensor& t) {
    return by_group ? t.reshape({batch, groups, 1, 1}) : t.reshape({1, 1, channels, 1});
  };

  const Shape images{batch, channels, space};
  const GradientSums sums =
      gradient_sums(dys.reshape(images), xs.reshape(images), of_channels(mean), of_channels(rstd), !by_group);
  Tensor slope, dot;  // Σ g / n and Σ g z / n
  if (of_constants) {
    slope = dot = Tensor::zeros({1, 1, 1, 1}, DType::f32, x.device());
  } else {
    const auto n = static_cast<double>(by_group ? in_group * space : batch * space);
    const auto averaged = [&](const Tensor& t) {
      const Tensor g = affine(weighted(t), 1 / n, 0);
      return of_elements(by_group ? sum(g.reshape({batch, groups, in_group}), {2}) : g);
    };
    slope = averaged(sums.slope);
    dot = averaged(sums.dot);
  }
  const Tensor per_channel = scale.defined() ? scale.reshape({1, outer, in_group, 1}) : scale;
  const Tensor dx = gradient_of_normalised(dys.reshape(shape), xs.reshape(shape), of_elements(mean), of_elements(rstd),
                                           per_channel, slope, dot);
  const auto over_batch = [&](const Tensor& t) { return (by_group ? sum(t, {0}) : t).to(x.dtype()); };
  return {dx.reshape(x.shape()).to(x.dtype()), over_batch(sums.dot), over_batch(sums.slope)};
}

/// The same for an operator with running statistics between x and the weight.
std::vector<Tensor> with_running(const std::vector<Tensor>& gradients) {
  return {gradients[0], Tensor(), Tensor(), gradients[1], gradients[2]};
}

}  // namespace

std::vector<Tensor> batch_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& weight, bool training) {
  return with_running(normalised_grad(dy, x, mean, rstd, weight, 0, !training));
}

std::vector<Tensor> group_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& weight, int64_t groups) {
  return normalised_grad(dy, x, mean, rstd, weight, groups, false);
}

std::vector<Tensor> instance_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                       const Tensor& weight, bool use_input_stats) {
  const int64_t groups = use_input_stats ? x.size(1) : 0;
  return with_running(normalised_grad(dy, x, mean, rstd, weight, groups, !use_input_stats));
}

Tensor var_mean_grad(const Tensor& dvar, const Tensor& dmean, const Tensor& x, const Shape& axes, bool keepdim,
                     double correction) {
  const Tensor values = x.to(DType::f32);
  const Tensor of_variance = var_grad(dvar.to(DType::f32), values, axes, keepdim, correction);
  return add(of_variance, mean_grad(dmean.to(DType::f32), axes, keepdim, x.shape())).to(x.dtype());
}

}  // namespace ashlar::recipes

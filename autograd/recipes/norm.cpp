#include "autograd/recipes/norm.h"

#include <array>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/reduce.h"
#include "autograd/recipes/values.h"
#include "operators/norm_passes.h"
#include "runtime/forms/rows.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

template <class T>
T sum_to_axis(const T& dy, int64_t axis) {
  if (dy.rank() <= 1) return dy.reshape({dy.numel()});
  Shape others;
  for (int i = 0; i < dy.rank(); i++) {
    if (i != normalize_reduced_axis("sum_to_axis", axis, dy.rank())) others.push_back(i);
  }
  return sum(dy, others);
}

namespace {

// ---- composed

/// What a normalisation makes of x before its weight, over which axes it took means, and of what.
struct Normalised {
  Var z, rstd;
  Shape axes;
  bool is_centred;
};

Normalised normalised(const Var& x, const Shape& axes, bool is_centred, double eps) {
  const Var centred = is_centred ? sub(x, mean(x, axes, true)) : x;
  const Var scale = rsqrt(affine(mean(mul(centred, centred), axes, true), 1, eps));
  return {mul(centred, scale), scale, axes, is_centred};
}

/// dx of g = dL/dz
Var through(const Normalised& n, const Var& g) {
  const Var sloped = sub(g, mul(n.z, mean(mul(g, n.z), n.axes, true)));
  return mul(n.rstd, n.is_centred ? sub(sloped, mean(g, n.axes, true)) : sloped);
}

/// Rows along `axis`, normalised in f32.
struct Rows {
  Var dy;
  Shape column;  ///< a weight's, beside them
  Normalised of;

  Rows(const Var& upstream, const Var& x, bool is_centred, double eps, int64_t axis) {
    const Shape wide = x.rank() == 0 ? Shape{1} : x.shape();
    const int along = normalize_reduced_axis("layer_norm", axis, wide.rank());
    column = Shape::filled(wide.rank(), 1);
    column[along] = wide[along];
    dy = upstream.to(DType::f32).reshape(wide);
    of = normalised(x.to(DType::f32).reshape(wide), {along}, is_centred, eps);
  }
  Var dx(const Var& x, const Var& weight) const {
    const Var g = weight.defined() ? mul(dy, weight.to(DType::f32).reshape(column)) : dy;
    return through(of, g).reshape(x.shape()).to(x.dtype());
  }
  Var dweight(const Var& x, int64_t axis) const { return sum_to_axis(mul(dy, of.z), axis).to(x.dtype()); }
};

Var no_gradient(const Var& x) { return Var(Tensor::zeros_like(x.value())); }
Var no_gradient(const Shape& shape, const Var& x) { return Var(Tensor::zeros(shape, x.dtype(), x.device())); }

}  // namespace

template <>
Tensor layer_norm_input_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                             const Tensor& weight, double, int64_t axis) {
  return layer_norm_grad(dy, x, mean, rstd, weight, axis);
}
template <>
Var layer_norm_input_grad(const Var& dy, const Var& x, const Var&, const Var&, const Var& weight, double eps,
                          int64_t axis) {
  return x.numel() == 0 ? no_gradient(x) : Rows(dy, x, true, eps, axis).dx(x, weight);
}

template <>
Tensor layer_norm_weight_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd, double,
                              int64_t axis) {
  return sum(norm_weight_sums(dy, x, rstd, mean, axis), {0, 1}).to(x.dtype());
}
template <>
Var layer_norm_weight_grad(const Var& dy, const Var& x, const Var&, const Var&, double eps, int64_t axis) {
  if (x.numel() == 0) return no_gradient({x.rank() == 0 ? 1 : x.size(axis)}, x);
  return Rows(dy, x, true, eps, axis).dweight(x, axis);
}

template <>
Tensor rms_norm_input_grad(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& weight, double,
                           int64_t axis) {
  return rms_norm_grad(dy, x, rstd, weight, axis);
}
template <>
Var rms_norm_input_grad(const Var& dy, const Var& x, const Var&, const Var& weight, double eps, int64_t axis) {
  return x.numel() == 0 ? no_gradient(x) : Rows(dy, x, false, eps, axis).dx(x, weight);
}

template <>
Tensor rms_norm_weight_grad(const Tensor& dy, const Tensor& x, const Tensor& rstd, double eps, int64_t axis) {
  return layer_norm_weight_grad(dy, x, Tensor(), rstd, eps, axis);
}
template <>
Var rms_norm_weight_grad(const Var& dy, const Var& x, const Var&, double eps, int64_t axis) {
  if (x.numel() == 0) return no_gradient({x.rank() == 0 ? 1 : x.size(axis)}, x);
  return Rows(dy, x, false, eps, axis).dweight(x, axis);
}

namespace {

/// {dx, dweight, dbias} of rows from one pass over them, where there is that and it is worth it: else none. With a dh,
/// which is added to dx, that is on GPUs.
std::vector<Tensor> gradients_of_rows(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                      const Tensor& weight, int64_t axis, Needs needs, const Tensor& dh = {}) {
  const bool is_served = x.dtype() == DType::f32 && x.numel() > 0 && needs(0) && (needs(1) || needs(2));
  if (!is_served || (dh.defined() && x.device().kind == DeviceKind::cpu)) return {};
  if (x.device().kind != DeviceKind::cpu) {
    const bool is_last = x.rank() > 0 && normalize_reduced_axis("layer_norm", axis, x.rank()) == x.rank() - 1;
    if (!is_last || !x.is_contiguous()) return {};
    const Shape matrix{x.numel() / x.size(-1), x.size(-1)};
    const auto of_rows = [&](const Tensor& t) { return t.defined() ? t.contiguous().reshape({matrix[0]}) : t; };
    const std::optional<RowGradients> all = gradients_of_rows_at_once(
        dy.contiguous().reshape(matrix), x.reshape(matrix), of_rows(mean), of_rows(rstd), weight,
        {.groups = 1, .in_group = matrix[1]}, dh.defined() ? dh.contiguous().reshape(matrix) : dh);
    if (!all) return {};
    return {all->dx.reshape(x.shape()), needs(1) ? all->dweight : Tensor(), needs(2) ? all->dbias : Tensor()};
  }
  std::vector<Tensor> gradients =
      forms::Rows::call(kernels::row_norm_grads, {.inputs = std::array{dy, x, rstd, mean, weight},
                                                  .scalars = std::array<Scalar, 1>{int64_t{mean.defined()}},
                                                  .options = std::array<OptionValue, 1>{axis}});
  for (int i : {1, 2}) {
    Tensor& parts = gradients[static_cast<size_t>(i)];
    parts = !needs(i) ? Tensor() : parts.size(0) == 1 ? parts.select(0, 0) : sum(parts, {0});
  }
  return gradients;
}
std::vector<Var> gradients_of_rows(const Var&, const Var&, const Var&, const Var&, const Var&, int64_t, Needs,
                                   const Var& = {}) {
  return {};
}

}  // namespace

template <class T>
std::vector<T> layer_norm_gradients(const T& dy, const T& x, const T& mean, const T& rstd, const T& weight, double eps,
                                    int64_t axis, Needs needs) {
  std::vector<T> gradients = gradients_of_rows(dy, x, mean, rstd, weight, axis, needs);
  if (!gradients.empty()) return gradients;
  gradients.resize(3);
  if (needs(0)) gradients[0] = layer_norm_input_grad(dy, x, mean, rstd, weight, eps, axis);
  if (needs(1)) gradients[1] = layer_norm_weight_grad(dy, x, mean, rstd, eps, axis);
  if (needs(2)) gradients[2] = sum_to_axis(dy, axis);
  return gradients;
}

template <class T>
std::vector<T> rms_norm_gradients(const T& dy, const T& x, const T& rstd, const T& weight, double eps, int64_t axis,
                                  Needs needs) {
  std::vector<T> gradients = gradients_of_rows(dy, x, T(), rstd, weight, axis, needs);
  gradients.resize(2);
  if (gradients[0].defined()) return gradients;
  if (needs(0)) gradients[0] = rms_norm_input_grad(dy, x, rstd, weight, eps, axis);
  if (needs(1)) gradients[1] = rms_norm_weight_grad(dy, x, rstd, eps, axis);
  return gradients;
}

namespace {

/// What `needs` asks a norm for whose input is the sum of two.
Needs needs_of_sum(Needs needs) {
  const bool of_sum = needs(0) || needs(1);
  return Needs(uint64_t{of_sum} | uint64_t{needs(2)} << 1 | uint64_t{needs(3)} << 2);
}

/// {dx, …} with dx for both terms of x.
template <class T>
std::vector<T> for_both_terms(std::vector<T> gradients) {
  gradients.insert(gradients.begin(), gradients[0]);
  return gradients;
}

}  // namespace

template <class T>
std::vector<T> add_layer_norm_gradients(const T& dy, const T& dh, const T& h, const T& mean, const T& rstd,
                                        const T& weight, double eps, int64_t axis, Needs needs) {
  if (!dh.defined()) {
    return for_both_terms(layer_norm_gradients(dy, h, mean, rstd, weight, eps, axis, needs_of_sum(needs)));
  }
  std::vector<T> gradients = gradients_of_rows(dy, h, mean, rstd, weight, axis, needs_of_sum(needs), dh);
  if (!gradients.empty()) return for_both_terms(std::move(gradients));
  gradients.resize(4);
  if (needs(0) || needs(1)) {
    if constexpr (std::is_same_v<T, Tensor>) {
      gradients[0] = add_layer_norm_grad(dy, dh, h, mean, rstd, weight, axis);
    } else {
      gradients[0] = add(dh, layer_norm_input_grad(dy, h, mean, rstd, weight, eps, axis));
    }
    gradients[1] = gradients[0];
  }
  if (needs(2)) gradients[2] = layer_norm_weight_grad(dy, h, mean, rstd, eps, axis);
  if (needs(3)) gradients[3] = sum_to_axis(dy, axis);
  return gradients;
}

template <class T>
std::vector<T> add_rms_norm_gradients(const T& dy, const T& dh, const T& h, const T& rstd, const T& weight, double eps,
                                      int64_t axis, Needs needs) {
  if (!dh.defined()) {
    return for_both_terms(rms_norm_gradients(dy, h, rstd, weight, eps, axis, needs_of_sum(needs)));
  }
  std::vector<T> gradients = gradients_of_rows(dy, h, T(), rstd, weight, axis, needs_of_sum(needs), dh);
  if (!gradients.empty()) {
    gradients.resize(2);
    return for_both_terms(std::move(gradients));
  }
  gradients.resize(3);
  if (needs(0) || needs(1)) {
    if constexpr (std::is_same_v<T, Tensor>) {
      gradients[0] = add_rms_norm_grad(dy, dh, h, rstd, weight, axis);
    } else {
      gradients[0] = add(dh, rms_norm_input_grad(dy, h, rstd, weight, eps, axis));
    }
    gradients[1] = gradients[0];
  }
  if (needs(2)) gradients[2] = rms_norm_weight_grad(dy, h, rstd, eps, axis);
  return gradients;
}

namespace {

// ---- of channels

/// {dx, dweight, dbias} where the mean is one of each channel (`groups` 0), or of each group of each image. Of Tensors.
std::vector<Tensor> normalised_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& weight, int64_t groups, bool of_constants, double) {
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
  const Groups own(xs.reshape({batch, channels, space}), scale, {}, groups);
  if (own.are_in_one_pass()) {
    const Shape each = by_group ? Shape{batch, groups} : Shape{1, channels};
    const Groups slopes(dys.reshape({batch, channels, space}), {}, {}, groups);
    const auto [dx, of_lines] = gradients_of_groups(own, slopes.x, mean.contiguous().reshape(each),
                                                    rstd.contiguous().reshape(each), of_constants);
    const auto over_images = [&](const Tensor& t) {
      const Tensor of_channels = own.of_channels(t);
      return (batch == 1 ? of_channels.reshape({channels}) : sum(of_channels, {0})).to(x.dtype());
    };
    return {own.as_given(dx).reshape(x.shape()).to(x.dtype()), over_images(of_lines.dot), over_images(of_lines.slope)};
  }
  if (by_group && !of_constants) {
    const Shape rows{batch * groups, in_group * space};
    const auto of_rows = [&](const Tensor& t) { return t.contiguous().reshape({rows[0]}); };
    if (const auto all = gradients_of_rows_at_once(dys.reshape(rows), xs.reshape(rows), of_rows(mean), of_rows(rstd),
                                                   scale, {.groups = groups, .in_group = in_group, .space = space})) {
      return {all->dx.reshape(x.shape()).to(x.dtype()), all->dweight.to(x.dtype()), all->dbias.to(x.dtype())};
    }
  }
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
  GradientSums of_mean;  // Σ g and Σ g z of what has one mean
  if (of_constants) {
    of_mean.slope = of_mean.dot = Tensor::zeros({1, 1, 1, 1}, DType::f32, x.device());
  } else {
    const auto of_group = [&](const Tensor& t) {
      return of_elements(by_group ? sum(weighted(t).reshape({batch, groups, in_group}), {2}) : t);
    };
    of_mean = {of_group(sums.slope), of_group(sums.dot)};
  }
  const Tensor per_channel = scale.defined() ? scale.reshape({1, outer, in_group, 1}) : scale;
  const double share = 1.0 / static_cast<double>(by_group ? in_group * space : batch * space);
  const Tensor dx = gradient_of_normalised(dys.reshape(shape), xs.reshape(shape), of_elements(mean), of_elements(rstd),
                                           per_channel, of_mean, share, !by_group);
  const auto over_batch = [&](const Tensor& t) { return (by_group ? sum(t, {0}) : t).to(x.dtype()); };
  return {dx.reshape(x.shape()).to(x.dtype()), over_batch(sums.dot), over_batch(sums.slope)};
}

/// The same of Vars, composed.
std::vector<Var> normalised_grad(const Var& dy, const Var& x, const Var& mean, const Var& rstd, const Var& weight,
                                 int64_t groups, bool of_constants, double eps) {
  const int64_t batch = x.size(0), channels = x.size(1);
  if (x.numel() == 0) return {no_gradient(x), no_gradient({channels}, x), no_gradient({channels}, x)};
  const bool by_group = groups > 0;
  const int64_t in_group = by_group ? channels / groups : channels, outer = by_group ? groups : 1;
  const Shape shape{batch, outer, in_group, x.numel() / (batch * channels)};
  const Var dys = dy.to(DType::f32).reshape(shape), xs = x.to(DType::f32).reshape(shape);
  const Var g = weight.defined() ? mul(dys, weight.to(DType::f32).reshape({1, outer, in_group, 1})) : dys;
  Var dx, z;
  if (of_constants) {
    const auto constant = [&](const Var& t) { return Var(t.value().reshape({1, 1, channels, 1})); };
    const Var scale = constant(rstd);
    z = mul(sub(xs, constant(mean)), scale);
    dx = mul(g, scale);
  } else {
    const Normalised all = normalised(xs, by_group ? Shape{2, 3} : Shape{0, 3}, true, eps);
    z = all.z;
    dx = through(all, g);
  }
  const auto of_channels = [&](const Var& t) { return sum(t, {0, 3}).reshape({channels}).to(x.dtype()); };
  return {dx.reshape(x.shape()).to(x.dtype()), of_channels(mul(dys, z)), of_channels(dys)};
}

/// The same for an operator with running statistics between x and the weight.
template <class T>
std::vector<T> with_running(const std::vector<T>& gradients) {
  return {gradients[0], T(), T(), gradients[1], gradients[2]};
}

}  // namespace

template <class T>
std::vector<T> batch_norm_grad(const T& dy, const T& x, const T& mean, const T& rstd, const T& weight, bool training,
                               double eps) {
  return with_running(normalised_grad(dy, x, mean, rstd, weight, 0, !training, eps));
}

template <class T>
std::vector<T> group_norm_grad(const T& dy, const T& x, const T& mean, const T& rstd, const T& weight, int64_t groups,
                               double eps) {
  return normalised_grad(dy, x, mean, rstd, weight, groups, false, eps);
}

template <class T>
std::vector<T> instance_norm_grad(const T& dy, const T& x, const T& mean, const T& rstd, const T& weight,
                                  bool use_input_stats, double eps) {
  const int64_t groups = use_input_stats ? x.size(1) : 0;
  return with_running(normalised_grad(dy, x, mean, rstd, weight, groups, !use_input_stats, eps));
}

template <class T>
T var_mean_grad(const T& dvar, const T& dmean, const T& x, const Shape& axes, bool keepdim, double correction) {
  const T values = x.to(DType::f32);
  const T of_variance = var_grad(dvar.to(DType::f32), values, axes, keepdim, correction);
  return add(of_variance, mean_grad(dmean.to(DType::f32), axes, keepdim, x.shape())).to(x.dtype());
}

template std::vector<Tensor> layer_norm_gradients(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                  const Tensor&, double, int64_t, Needs);
template std::vector<Tensor> rms_norm_gradients(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double,
                                                int64_t, Needs);
template std::vector<Var> layer_norm_gradients(const Var&, const Var&, const Var&, const Var&, const Var&, double,
                                               int64_t, Needs);
template std::vector<Var> rms_norm_gradients(const Var&, const Var&, const Var&, const Var&, double, int64_t, Needs);
template std::vector<Tensor> add_layer_norm_gradients(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                      const Tensor&, const Tensor&, double, int64_t, Needs);
template std::vector<Tensor> add_rms_norm_gradients(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                    const Tensor&, double, int64_t, Needs);
template std::vector<Var> add_layer_norm_gradients(const Var&, const Var&, const Var&, const Var&, const Var&,
                                                   const Var&, double, int64_t, Needs);
template std::vector<Var> add_rms_norm_gradients(const Var&, const Var&, const Var&, const Var&, const Var&, double,
                                                 int64_t, Needs);
template Tensor sum_to_axis(const Tensor&, int64_t);
template Var sum_to_axis(const Var&, int64_t);
template std::vector<Tensor> batch_norm_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                             bool, double);
template std::vector<Var> batch_norm_grad(const Var&, const Var&, const Var&, const Var&, const Var&, bool, double);
template std::vector<Tensor> group_norm_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                             int64_t, double);
template std::vector<Var> group_norm_grad(const Var&, const Var&, const Var&, const Var&, const Var&, int64_t, double);
template std::vector<Tensor> instance_norm_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                const Tensor&, bool, double);
template std::vector<Var> instance_norm_grad(const Var&, const Var&, const Var&, const Var&, const Var&, bool, double);
template Tensor var_mean_grad(const Tensor&, const Tensor&, const Tensor&, const Shape&, bool, double);
template Var var_mean_grad(const Var&, const Var&, const Var&, const Shape&, bool, double);

}  // namespace ashlar::recipes

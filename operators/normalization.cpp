// batch_norm, group_norm, instance_norm and var_mean (generators/normalization.cpp).
#include "ashlar/ops/normalization.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "ashlar/ops/reduction.h"
#include "ashlar/ops/ternary.h"
#include "ashlar/ops/unary.h"
#include "operators/norm_passes.h"
#include "runtime/forms/check.h"
#include "runtime/forms/unrounded_reduction.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

Tensor in_f32(const Tensor& x) { return x.defined() ? x.to(DType::f32) : x; }

/// What one call normalises: x[batch, channels, …], seen as [batch, groups, channels of a group, space].
struct Call {
  const KernelInfo& kernel;
  Tensor x;
  Tensor weight, bias;
  Shape shape;

  Call(const KernelInfo& kernel, const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups)
      : kernel(kernel), x(x), weight(weight), bias(bias) {
    if (x.defined() && x.rank() < 2) {
      throw ShapeError(kernel.name, "x: " + x.str(), "x of rank 2 or more, [batch, channels, …]",
                       "Give it an axis for the batch with unsqueeze(0)");
    }
    const int64_t batch = x.size(0), channels = x.size(1);
    if (groups < 1 || channels % groups != 0) {
      throw ValueError(kernel.name, std::to_string(groups) + " groups of x: " + x.str(),
                       "a number of groups that divides the channels (axis 1)", "Choose another number of groups");
    }
    int64_t space = 1;
    for (int i = 2; i < x.rank(); i++) space *= x.size(i);
    shape = {batch, groups, channels / groups, space};
    for (const auto& [name, t] : {std::pair{"weight", &weight}, {"bias", &bias}}) check_per_channel(name, *t);
  }

  int64_t channels() const { return shape[1] * shape[2]; }
  int64_t space() const { return shape[3]; }

  void check_per_channel(const char* name, const Tensor& t) const {
    if (!t.defined()) return;
    if (t.shape() != Shape{channels()}) {
      throw ShapeError(kernel.name, std::string(name) + ": " + t.str() + ", x: " + x.str(),
                       std::string(name) + " of shape [" + std::to_string(channels()) + "]",
                       "Give one element for each channel, which is axis 1 of x");
    }
    if (t.device() != x.device()) {
      throw DeviceError(kernel.name, std::string(name) + ": " + t.str() + ", x: " + x.str(), "both on one device",
                        "Move one of them with to(device)");
    }
  }
  /// A channel's element, as it broadcasts to `shape`.
  Tensor of_channels(const Tensor& t) const { return t.defined() ? in_f32(t).reshape({1, shape[1], shape[2], 1}) : t; }

  /// mean and rstd as they broadcast to `shape`.
  Tensor normalise(const Tensor& mean, const Tensor& rstd) const {
    return normalised(x.contiguous().reshape(shape), mean, rstd, of_channels(weight), of_channels(bias))
        .reshape(x.shape());
  }
  /// What the CPU normalises in one pass, by the statistics of x.
  std::optional<Groups> in_one_pass(int64_t groups) const {
    if (x.device().kind != DeviceKind::cpu || x.dtype() != DType::f32) return {};
    const Groups all(x.contiguous().reshape({shape[0], channels(), space()}), in_f32(weight), in_f32(bias), groups);
    return all.are_in_one_pass() ? std::optional(all) : std::nullopt;
  }
  /// The results where x has no elements.
  std::array<Tensor, 3> empty(const Shape& statistics) const {
    const Tensor zeros = Tensor::zeros(statistics, DType::f32, x.device());
    return {Tensor::empty(x.shape(), x.dtype(), x.device()), zeros, zeros.clone()};
  }
};

/// running += momentum (batch's - running), of both
void move_running(const Tensor& mean, const Tensor& variance, const Tensor& to_mean, const Tensor& to_variance,
                  double momentum) {
  const auto moves = [](const Tensor& t) { return t.defined() && t.dtype() == DType::f32 && t.is_contiguous(); };
  if (moves(mean) && moves(variance)) return move_running_moments(mean, variance, to_mean, to_variance, momentum);
  for (const auto& [running, to] : {std::pair{&mean, &to_mean}, {&variance, &to_variance}}) {
    if (!running->defined()) continue;
    const Tensor share = Tensor::full({}, momentum, DType::f32, running->device());
    running->copy_(lerp(in_f32(*running), *to, share).to(running->dtype()));
  }
}

void need_running(const Call& call, const Tensor& mean, const Tensor& variance) {
  if (mean.defined() && variance.defined()) return;
  throw ValueError(call.kernel.name, "no running_mean or running_var", "both, since the input's statistics aren't used",
                   "Give both, or normalise by the input's own statistics");
}

void need_several_values(const Call& call, int64_t values) {
  if (values > 1) return;
  throw ShapeError(call.kernel.name, "x: " + call.x.str(), "more than one value for each mean",
                   "Use running statistics, or a larger batch");
}

/// By the running statistics of each channel.
std::array<Tensor, 3> by_running(const Call& call, const Tensor& running_mean, const Tensor& running_var, double eps) {
  need_running(call, running_mean, running_var);
  // A copy: the running mean moves on while the tape holds this one.
  const Tensor mean = in_f32(running_mean.clone()), rstd = rsqrt(affine(in_f32(running_var), 1, eps));
  if (call.x.numel() == 0) return {Tensor::empty(call.x.shape(), call.x.dtype(), call.x.device()), mean, rstd};
  return {call.normalise(call.of_channels(mean), call.of_channels(rstd)), mean, rstd};
}

/// By the statistics of each group of each image.
std::array<Tensor, 3> by_groups(const Call& call, double eps, Tensor* variance = nullptr) {
  const int64_t batch = call.shape[0], groups = call.shape[1], size = call.shape[2] * call.shape[3];
  if (call.x.numel() == 0) return call.empty({batch, groups});
  if (const std::optional<Groups> own = call.in_one_pass(groups)) {
    const auto [y, moments] = normalised_groups(*own, eps, 1);
    if (variance != nullptr) *variance = moments.variance;
    return {own->as_given(y).reshape(call.x.shape()), moments.mean, moments.rstd};
  }
  if (call.x.dtype() == DType::f32) {
    const ChannelsOfRows channels{groups, call.shape[2], call.space()};
    if (const auto own = normalised_rows(call.x.contiguous().reshape({batch * groups, size}), in_f32(call.weight),
                                         in_f32(call.bias), channels, eps)) {
      const auto each = [&](const Tensor& t) { return t.reshape({batch, groups}); };
      const auto& [mean, rstd, biased] = own->moments;
      const auto count = static_cast<double>(size);
      if (variance != nullptr) *variance = each(affine(biased, count / (count - 1), 0));
      return {own->y.reshape(call.x.shape()), each(mean), each(rstd)};
    }
  }
  const Tensor rows = in_f32(call.x.contiguous()).reshape({batch * groups, size, 1});
  const Moments moments = moments_of(rows, eps, 1);
  const Shape each{batch, groups, 1, 1};
  if (variance != nullptr) *variance = moments.variance.reshape({batch, groups});
  return {call.normalise(moments.mean.reshape(each), moments.rstd.reshape(each)), moments.mean.reshape({batch, groups}),
          moments.rstd.reshape({batch, groups})};
}

}  // namespace

BatchNormResult batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                           const Tensor& bias, bool training, double momentum, double eps) try {
  forms::key_of(kernels::batch_norm, std::array{x, running_mean, running_var, weight, bias});
  const Call call(kernels::batch_norm, x, weight, bias, 1);
  call.check_per_channel("running_mean", running_mean);
  call.check_per_channel("running_var", running_var);
  if (!training) {
    const auto [y, mean, rstd] = by_running(call, running_mean, running_var, eps);
    return {y, mean, rstd};
  }
  need_several_values(call, call.shape[0] * call.space());
  if (x.numel() == 0) {
    const auto [y, mean, rstd] = call.empty({call.channels()});
    return {y, mean, rstd};
  }
  if (const std::optional<Groups> groups = call.in_one_pass(0)) {
    const auto [y, moments] = normalised_groups(*groups, eps, 1);
    const Shape each{call.channels()};
    const Tensor mean = moments.mean.reshape(each), rstd = moments.rstd.reshape(each);
    move_running(running_mean, running_var, mean, moments.variance.reshape(each), momentum);
    return {y.reshape(x.shape()), mean, rstd};
  }
  const Tensor images = in_f32(x.contiguous()).reshape({call.shape[0], call.channels(), call.space()});
  const Moments moments = moments_of_channels(images, eps, 1);
  move_running(running_mean, running_var, moments.mean, moments.variance, momentum);
  return {call.normalise(call.of_channels(moments.mean), call.of_channels(moments.rstd)), moments.mean, moments.rstd};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("batch_norm");
}

GroupNormResult group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t num_groups,
                           double eps) try {
  forms::key_of(kernels::group_norm, std::array{x, weight, bias});
  const auto [y, mean, rstd] = by_groups(Call(kernels::group_norm, x, weight, bias, num_groups), eps);
  return {y, mean, rstd};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("group_norm");
}

InstanceNormResult instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                                 const Tensor& weight, const Tensor& bias, bool use_input_stats, double momentum,
                                 double eps) try {
  forms::key_of(kernels::instance_norm, std::array{x, running_mean, running_var, weight, bias});
  const int64_t channels = x.rank() < 2 ? 1 : x.size(1);
  const Call call(kernels::instance_norm, x, weight, bias, std::max<int64_t>(channels, 1));
  call.check_per_channel("running_mean", running_mean);
  call.check_per_channel("running_var", running_var);
  if (!use_input_stats) {
    const auto [y, mean, rstd] = by_running(call, running_mean, running_var, eps);
    return {y, mean, rstd};
  }
  need_several_values(call, call.space());
  if (channels == 0) {
    const auto [y, mean, rstd] = call.empty({x.size(0), 0});
    return {y, mean, rstd};
  }
  Tensor variance;
  const auto [y, mean, rstd] = by_groups(call, eps, &variance);
  if (x.numel() > 0) {
    const auto of_batch = [](const Tensor& running, const Tensor& each) {
      return running.defined() ? ashlar::mean(each, {0}) : Tensor();
    };
    move_running(running_mean, running_var, of_batch(running_mean, mean), of_batch(running_var, variance), momentum);
  }
  return {y, mean, rstd};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("instance_norm");
}

VarMeanResult var_mean(const Tensor& x, const Axes& axes, bool keepdim, double correction) try {
  forms::key_of(kernels::var_mean, std::span(&x, 1));
  unsigned reduced = 0;
  Shape shape;
  for (const int64_t axis : axes) reduced |= 1u << normalize_reduced_axis("var_mean", axis, x.rank());
  if (axes.empty() || x.rank() == 0) reduced = (1u << x.rank()) - 1;
  if (axes.rank() > __builtin_popcount(reduced) && x.rank() > 0) {
    throw ValueError("var_mean", "axes " + axes.str(), "each axis at most once", "Remove the repeated axis");
  }
  int64_t count = 1;
  for (int i = 0; i < x.rank(); i++) {
    const bool is_reduced = reduced >> i & 1;
    if (is_reduced) count *= x.shape()[i];
    if (!is_reduced || keepdim) shape.push_back(is_reduced ? 1 : x.shape()[i]);
  }
  if (count == 0 || shape.numel() == 0) {
    const Tensor none = Tensor::full(shape, std::numeric_limits<double>::quiet_NaN(), x.dtype(), x.device());
    return {none, none.clone()};
  }
  const Moments moments = moments_of(forms::as_reduction(in_f32(x), reduced), 0, correction);
  return {moments.variance.reshape(shape).to(x.dtype()), moments.mean.reshape(shape).to(x.dtype())};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("var_mean");
}

}  // namespace ashlar

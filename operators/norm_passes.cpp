#include "operators/norm_passes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "ashlar/ops/grouped_norm.h"
#include "ashlar/ops/norm_gradients.h"
#include "ashlar/ops/norm_of_group_rows.h"
#include "ashlar/ops/normalization.h"
#include "ashlar/ops/reduction.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/forms/broadcast.h"
#include "runtime/forms/row_sum_shapes.h"
#include "runtime/forms/unrounded_reduction.h"
#include "runtime/launch/access.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/plans.h"
#include "runtime/support/rounding.h"

namespace ashlar {
namespace {

constexpr KernelKey kF32{.elements = {DType::f32}};

/// {count, mean, Σ (x - mean)²} of parts of x[outer, reduced, inner]: each [outer, parts, inner].
std::array<Tensor, 3> moments_of_parts(const Tensor& x) {
  const int64_t chunk = forms::reduction_chunk(x.shape(), x.device().kind);
  const Shape shape{x.size(0), detail::over(x.size(1), chunk), x.size(2)};
  std::array<Tensor, 3> states;
  for (Tensor& state : states) state = Tensor::empty(shape, DType::f32, x.device());
  const Scalar scalar(chunk);
  launch(kernels::moments_of_parts, kF32, std::span(&x, 1), std::span(&scalar, 1), states);
  return states;
}

/// Of states [outer, reduced, inner].
Moments moments_of_all(const std::array<Tensor, 3>& states, double eps, double correction) {
  const Shape shape{states[0].size(0), 1, states[0].size(2)};
  std::array<Tensor, 3> results;
  for (Tensor& result : results) result = Tensor::empty(shape, DType::f32, states[0].device());
  const std::array<Scalar, 3> scalars{states[0].size(1), eps, correction};
  launch(kernels::moments_of_all, kF32, states, scalars, results);
  return {results[0], results[1], results[2]};
}

/// Dense [batch, channels, parts] as [outer, reduced, inner] whose middle axis has the batch and the parts.
Tensor by_channels(const Tensor& x) {
  const int64_t batch = x.size(0), channels = x.size(1), parts = x.size(2);
  // A GPU's threads share what is one row, while a column is one thread's.
  if (parts == 1 && x.device().kind == DeviceKind::cpu) return x.reshape({1, batch, channels});
  if (parts == 1) return x.permute({1, 0, 2});
  return x.permute({1, 0, 2}).contiguous().reshape({channels, batch * parts, 1});
}

/// Of a dense x[batch, groups, channels of a group, space] on a GPU whose vectors go over the ends of its rows: space,
/// channels, and the channels of a group, 0 where the `statistic` is each channel's and not each group's of an image.
/// Such an x is taken as one run of elements.
std::optional<std::array<Scalar, 3>> as_run(const Tensor& x, const Tensor& statistic) {
  const int64_t channels = x.size(1) * x.size(2), space = x.size(3);
  constexpr int kVector = elements_of_access(sizeof(float));  // statistics are f32
  const bool by_channel = statistic.size(0) == 1 && statistic.numel() == channels;
  const bool by_group = statistic.shape() == Shape{x.size(0), x.size(1), 1, 1};
  const bool is_run = x.device().kind != DeviceKind::cpu && x.is_contiguous() && space >= kVector &&
                      space % kVector != 0 && x.numel() <= std::numeric_limits<int32_t>::max();
  if (!is_run || !(by_channel || by_group)) return {};
  return std::array<Scalar, 3>{space, channels, by_channel ? int64_t{0} : x.size(2)};
}

Tensor flat(const Tensor& t) { return t.contiguous().reshape({t.numel()}); }

/// Launches a kernel of a run's `dense` tensors of elements and `tables` of values for each channel or group.
Tensor of_run(const KernelInfo& kernel, std::span<const Tensor> dense, std::span<const Tensor> tables,
              const std::array<Scalar, 3>& run, std::span<const Scalar> scalars) {
  std::vector<Tensor> inputs;
  for (const Tensor& t : dense) inputs.push_back(flat(t));
  for (const Tensor& t : tables) inputs.push_back(flat(t));
  std::vector<Scalar> all(run.begin(), run.end());
  all.insert(all.end(), scalars.begin(), scalars.end());
  const Tensor y = Tensor::empty(inputs[0].shape(), inputs[0].dtype(), inputs[0].device());
  launch(kernel, KernelKey{.elements = {y.dtype()}}, inputs, all, std::span(&y, 1));
  return y.reshape(dense[0].shape());
}

}  // namespace

Moments moments_of(const Tensor& x, double eps, double correction) {
  Moments all = moments_of_all(moments_of_parts(x), eps, correction);
  for (Tensor* t : {&all.mean, &all.rstd, &all.variance}) *t = t->reshape({x.size(0), x.size(2)});
  return all;
}

Moments moments_of_channels(const Tensor& x, double eps, double correction) {
  const int64_t batch = x.size(0), channels = x.size(1), space = x.size(2);
  // Channels that lie side by side are columns; else each image's channel is a row, and the rows of one are merged.
  const bool are_columns = space == 1;
  std::array<Tensor, 3> states =
      moments_of_parts(x.reshape(are_columns ? Shape{1, batch, channels} : Shape{batch * channels, space, 1}));
  if (!are_columns) {
    for (Tensor& state : states) state = by_channels(state.reshape({batch, channels, state.size(1)}));
  }
  Moments all = moments_of_all(states, eps, correction);
  for (Tensor* t : {&all.mean, &all.rstd, &all.variance}) *t = t->reshape({channels});
  return all;
}

GradientSums gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd, bool over_batch) {
  const int64_t batch = x.size(0), channels = x.size(1), space = x.size(2);
  const bool are_columns = over_batch && space == 1;
  const Shape shape = are_columns ? Shape{1, batch, channels} : Shape{batch * channels, space, 1};
  // A channel's numbers are found by its row's.
  const auto each = [&](const Tensor& t) {
    if (are_columns) return t.contiguous().reshape({1, 1, channels});
    return t.contiguous().reshape({t.numel(), 1, 1});
  };
  const std::array inputs{dy.reshape(shape), x.reshape(shape), each(mean), each(rstd)};
  const int64_t chunk = forms::reduction_chunk(shape, x.device().kind), parts = detail::over(shape[1], chunk);
  // Both in one tensor, whose parts are added up at once.
  const Tensor both = Tensor::empty({2, shape[0], parts, shape[2]}, DType::f32, x.device());
  const std::array halves{both.select(0, 0), both.select(0, 1)};
  const Scalar scalar(chunk);
  launch(kernels::norm_sums, kF32, inputs, std::span(&scalar, 1), halves);
  Tensor sums;
  if (are_columns) {
    sums = parts == 1 ? both.reshape({2, channels}) : sum(both.reshape({2, parts, channels}), {1});
  } else if (over_batch) {
    sums = sum(both.reshape({2, batch, channels, parts}), {1, 3});
  } else {
    sums = parts == 1 ? both.reshape({2, batch, channels}) : sum(both.reshape({2, batch, channels, parts}), {3});
  }
  return {sums.select(0, 0), sums.select(0, 1)};
}

Tensor normalised(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight, const Tensor& bias) {
  // What is absent is never used, but there has to be memory.
  const std::array inputs{x, mean, rstd, weight.defined() ? weight : mean, bias.defined() ? bias : mean};
  const std::array scalars{Scalar(int64_t{weight.defined()}), Scalar(int64_t{bias.defined()})};
  if (const auto run = as_run(x, mean)) {
    return of_run(kernels::norm_of_runs, {&x, 1}, std::span(inputs).subspan(1), *run, scalars);
  }
  return forms::Broadcast::call(kernels::norm_of_elements, {.inputs = inputs, .scalars = scalars})[0];
}

Tensor gradient_of_normalised(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                              const Tensor& weight, const GradientSums& sums, double share, bool of_dy) {
  const std::array inputs{dy, x, mean, rstd, weight.defined() ? weight : mean, sums.slope, sums.dot};
  const std::array scalars{Scalar(int64_t{weight.defined()}), Scalar(int64_t{of_dy}), Scalar(share)};
  const auto run = as_run(x, mean);
  if (run && dy.is_contiguous() && sums.slope.numel() == mean.numel()) {
    constexpr size_t kDense = 2;
    return of_run(kernels::norm_gradient_of_runs, std::span(inputs).first(kDense), std::span(inputs).subspan(kDense),
                  *run, scalars);
  }
  return forms::Broadcast::call(kernels::norm_gradient_of_elements, {.inputs = inputs, .scalars = scalars})[0];
}

namespace {

/// Of the kernels that read rows once; what they sum up has whole ones for each part.
constexpr int64_t kVector = 4;

/// ⌈2³² / space⌉: column · that div 2³² is the column's channel.
int64_t inverse_of(int64_t space) { return detail::over(int64_t{1} << 32, space); }

Tensor dense_or(const Tensor& t, const Tensor& absent) { return t.defined() ? t.contiguous() : absent; }

/// How a GPU deals out rows of which it reads `matrices` once.
std::optional<forms::DealtRows> dealt(std::span<const Tensor> matrices, const ChannelsOfRows& channels) {
  const Tensor& x = matrices[0];
  const DeviceKind kind = x.device().kind;
  const bool is_aligned = std::ranges::all_of(matrices, [](const Tensor& t) { return t.offset() % kVector == 0; });
  const forms::RowSumShape* shape =
      kind == DeviceKind::cpu ? nullptr : forms::row_sum_shape(kind, x.size(1), is_aligned);
  // On OpenCL long rows of single elements are slower than several passes.
  constexpr int64_t kMostOddOfOpenCl = 2048;
  if (shape == nullptr || x.numel() > std::numeric_limits<int32_t>::max()) return {};
  if (kind == DeviceKind::opencl && shape->vector == 1 && x.size(1) > kMostOddOfOpenCl) return {};
  if (shape->in_shared && shape->shared_bytes() > detail::cuda_shared_bytes(x.device().index)) return {};
  const auto multiprocessors =
      static_cast<int64_t>(detail::plan_device_number(x.device(), PlanDevice::multiprocessors));
  return forms::dealt_rows(*shape, x.size(0), x.size(1), channels.groups, multiprocessors);
}

/// sums[part, which, place], of channels' places in each group's parts, as [which, channels].
Tensor of_channels(const Tensor& sums, const ChannelsOfRows& channels) {
  const int64_t parts = sums.size(0) / channels.groups;
  const Tensor by_group = sums.reshape({parts, channels.groups, 2, sums.size(2)});
  const Tensor over_parts = (parts == 1 ? by_group.select(0, 0) : sum(by_group, {0})).slice(2, 0, channels.columns());
  if (channels.groups == 1 && channels.space == 1) return over_parts.select(0, 0);
  const Tensor places = over_parts.reshape({channels.groups, 2, channels.in_group, channels.space});
  const Tensor each = channels.space == 1 ? places.select(3, 0) : sum(places, {3});
  return each.transpose(0, 1).reshape({2, channels.groups * channels.in_group});
}

}  // namespace

std::optional<NormalisedRows> normalised_rows(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                              const ChannelsOfRows& channels, double eps) {
  // Longer ones, of which a block can't hold enough, and short ones of single elements are quicker in two passes.
  constexpr int64_t kMostOfCuda = 16384, kMostOfOpenCl = 8192, kLeastOdd = 192;
  const bool is_whole = x.size(1) % kVector == 0;
  const int64_t most_columns = x.device().kind == DeviceKind::opencl ? kMostOfOpenCl
                               : is_whole                            ? kMostOfCuda
                                                                     : kMostOfCuda - (kVector - 1);
  const bool has_shape = x.size(1) <= most_columns && (is_whole || x.size(1) >= kLeastOdd);
  const bool is_served =
      x.device().kind != DeviceKind::cpu && has_shape && x.numel() <= std::numeric_limits<int32_t>::max();
  if (!is_served) return {};
  const auto empty = [&](const Shape& shape) { return Tensor::empty(shape, DType::f32, x.device()); };
  const Tensor y = empty(x.shape()), mean = empty({x.size(0)}), rstd = empty({x.size(0)}),
               variance = empty({x.size(0)});
  // What is absent is never used, but there has to be memory.
  const Tensor absent = x.select(0, 0);
  const std::array inputs{x, dense_or(weight, absent), dense_or(bias, absent)};
  const std::array<Scalar, 6> scalars{eps,
                                      int64_t{weight.defined()},
                                      int64_t{bias.defined()},
                                      channels.groups,
                                      channels.in_group,
                                      inverse_of(channels.space)};
  launch(kernels::norm_of_group_rows, kF32, inputs, scalars, std::array{y, mean, rstd, variance});
  return NormalisedRows{y, {mean, rstd, variance}};
}

std::optional<RowGradients> gradients_of_rows_at_once(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                                      const Tensor& rstd, const Tensor& weight,
                                                      const ChannelsOfRows& channels, const Tensor& dh) {
  const std::array matrices{dy, x, dh.defined() ? dh : x};
  const std::optional<forms::DealtRows> rows = dealt(matrices, channels);
  // Of few rows the parts' sums are as much memory as the rows.
  constexpr int64_t kLeastRowsOfClass = 8;
  if (!rows || (channels.groups > 1 && x.size(0) < rows->classes * kLeastRowsOfClass)) return {};
  const int64_t columns = x.size(1);
  // A row that begins inside a vector ends as much later.
  const int64_t places = columns % kVector == 0 ? columns : detail::round_up(columns + kVector - 1, kVector);
  const Tensor dx = Tensor::empty(x.shape(), DType::f32, x.device()),
               sums = Tensor::empty({rows->parts, 2, places}, DType::f32, x.device());
  // What is absent is never used, but there has to be memory.
  const std::array inputs{
      dy, x, rstd, mean.defined() ? mean : rstd, dense_or(weight, dy.select(0, 0)), dh.defined() ? dh : dy};
  const std::array<Scalar, 7> scalars{int64_t{mean.defined()}, int64_t{weight.defined()},  channels.groups,
                                      channels.in_group,       inverse_of(channels.space), rows->classes,
                                      rows->rows_of_part};
  const KernelKey key{.elements = {DType::f32}, .variant = uint16_t{dh.defined()}};
  launch(kernels::row_norm_grads_in_parts, key, inputs, scalars, std::array{dx, sums});
  const Tensor both = of_channels(sums, channels);
  return RowGradients{dx, both.select(0, 0), both.select(0, 1)};
}

void move_running_moments(const Tensor& running_mean, const Tensor& running_var, const Tensor& mean,
                          const Tensor& variance, double momentum) {
  const std::array running{running_mean, running_var};
  const Scalar scalar(momentum);
  launch(kernels::running_moments, kF32, std::array{running_mean, running_var, mean, variance}, std::span(&scalar, 1),
         running);
}

Groups::Groups(const Tensor& given, const Tensor& given_weight, const Tensor& given_bias, int64_t groups)
    : are_of_image_(groups > 0) {
  const int64_t batch = given.size(0), channels = given.size(1), space = given.size(2);
  const int64_t in_group = are_of_image_ ? channels / groups : 1;
  x = are_of_image_ ? given.reshape({batch, groups, in_group, space}).transpose(1, 2)
                    : given.reshape({1, batch, channels, space});
  const auto of_lines = [&](const Tensor& t) {
    if (!t.defined()) return t;
    const Tensor each = are_of_image_ ? t.reshape({1, groups, in_group}).transpose(1, 2) : t.reshape({1, 1, channels});
    return each.broadcast_to({x.size(0), x.size(1), x.size(2)});
  };
  weight = of_lines(given_weight);
  bias = of_lines(given_bias);
}

bool Groups::are_in_one_pass() const {
  // A line has what the kernel adds up at once; there are groups enough for several threads, or little to do; and a
  // group's lines aren't many pieces all over a large tensor, which take longer to be read than all of it in order.
  constexpr int64_t kLeastPlaces = 32, kLeastGroups = 8, kLittle = 1 << 16, kFewLines = 8, kSmall = 1 << 19;
  const bool has_tasks = x.size(0) * x.size(2) >= kLeastGroups || x.numel() <= kLittle;
  const bool is_near = are_of_image_ || x.size(1) <= kFewLines || x.numel() <= kSmall;
  return x.device().kind == DeviceKind::cpu && x.size(3) >= kLeastPlaces && has_tasks && is_near;
}

Tensor Groups::as_given(const Tensor& of_x) const { return are_of_image_ ? of_x.transpose(1, 2) : of_x; }

Tensor Groups::of_channels(const Tensor& of_lines) const {
  return as_given(of_lines).reshape(
      {are_of_image_ ? x.size(0) : x.size(1), x.numel() / x.size(3) / (are_of_image_ ? x.size(0) : x.size(1))});
}

namespace {

Shape lines_of(const Tensor& x) { return {x.size(0), x.size(1), x.size(2)}; }

}  // namespace

NormalisedGroups normalised_groups(const Groups& groups, double eps, double correction) {
  const Tensor& x = groups.x;
  const Tensor y = groups.as_given(Tensor::empty(groups.as_given(x).shape(), DType::f32, x.device()));
  std::array<Tensor, 4> outputs{y};
  for (size_t i = 1; i < outputs.size(); i++) outputs[i] = Tensor::empty(lines_of(x), DType::f32, x.device());
  const Tensor absent = x.select(3, 0);  // never used, but there has to be memory
  const std::array inputs{x, groups.weight.defined() ? groups.weight : absent,
                          groups.bias.defined() ? groups.bias : absent};
  const std::array<Scalar, 4> scalars{eps, correction, int64_t{groups.weight.defined()},
                                      int64_t{groups.bias.defined()}};
  launch(kernels::norm_of_groups, kF32, inputs, scalars, outputs);
  const auto of_groups = [](const Tensor& t) { return t.select(1, 0).contiguous(); };
  return {y, {of_groups(outputs[1]), of_groups(outputs[2]), of_groups(outputs[3])}};
}

GroupGradients gradients_of_groups(const Groups& groups, const Tensor& dy, const Tensor& mean, const Tensor& rstd,
                                   bool of_constants) {
  const Tensor& x = groups.x;
  const Tensor dx = groups.as_given(Tensor::empty(groups.as_given(x).shape(), DType::f32, x.device()));
  const std::array outputs{dx, Tensor::empty(lines_of(x), DType::f32, x.device()),
                           Tensor::empty(lines_of(x), DType::f32, x.device())};
  const std::array inputs{dy, x, mean, rstd, groups.weight.defined() ? groups.weight : x.select(3, 0)};
  const std::array<Scalar, 2> scalars{int64_t{groups.weight.defined()}, int64_t{of_constants}};
  launch(kernels::norm_of_groups_grad, kF32, inputs, scalars, outputs);
  return {dx, {outputs[2], outputs[1]}};
}

}  // namespace ashlar

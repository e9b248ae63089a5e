#include "nn/modules/channel_norm.h"

#include <concepts>
#include <sstream>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/checkpoint.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

void check_positive(const std::type_info& type, const char* what, int64_t count) {
  if (count > 0) return;
  throw ValueError(class_name(type), std::string(what) + " = " + std::to_string(count), "a positive number",
                   "Pass the size of axis 1 of x");
}

void check_channels(const std::type_info& type, const Var& x, int64_t channels, int least_rank, int most_rank) {
  const int rank = x.rank();
  if (rank >= least_rank && rank <= most_rank && x.size(1) == channels) return;
  const std::string ranks = least_rank == most_rank ? std::to_string(least_rank)
                                                    : std::to_string(least_rank) + " to " + std::to_string(most_rank);
  throw ShapeError(class_name(type), x.value().str(),
                   "a tensor of rank " + ranks + " whose axis 1 has the size " + std::to_string(channels),
                   "Give the module the channels of x, or reshape it");
}

}  // namespace

template <class Derived, class Options, int kLeast, int kMost>
ChannelNorm<Derived, Options, kLeast, kMost>::ChannelNorm(int64_t num_features, const Options& options)
    : features_(num_features), eps_(options.eps), momentum_(options.momentum) {
  check_positive(typeid(Derived), "num_features", num_features);
  if (options.affine) this->begin_as_identity({num_features}, true, placement_of(options));
  if (!options.track_running_stats) return;
  running_mean_ = Var(Tensor::zeros({num_features}, DType::f32, options.device));
  running_var_ = Var(Tensor::ones({num_features}, DType::f32, options.device));
  batches_ = Var(Tensor::zeros({}, DType::i64, options.device));
}

template <class Derived, class Options, int kLeast, int kMost>
double ChannelNorm<Derived, Options, kLeast, kMost>::next_momentum() const {
  if (!batches_.defined()) return 0;
  // PyTorch's instance norms don't count; a mean of all has to.
  if (momentum_ && !std::same_as<Options, BatchNormOptions>) return *momentum_;
  const Tensor& batches = batches_.value();
  const Tensor one = Tensor::ones({}, DType::i64, batches.device());
  batches.copy_(add(batches, one));
  return momentum_ ? *momentum_ : 1.0 / static_cast<double>(batches.item());
}

template <class Derived, class Options, int kLeast, int kMost>
Var ChannelNorm<Derived, Options, kLeast, kMost>::forward(const Var& x) const {
  check_channels(typeid(Derived), x, features_, kLeast, kMost);
  const bool training = this->training();
  // What a checkpoint computes once more is counted once.
  const double momentum = training && !ad::is_recomputing() ? next_momentum() : 0;
  const bool by_input = training || !running_mean_.defined();
  // A module cast to 16 bits has its statistics in these; they move in f32.
  const auto in_f32 = [](const Var& running) {
    return running.defined() ? Var(running.value().to(DType::f32)) : running;
  };
  const Var mean = in_f32(running_mean_), variance = in_f32(running_var_);
  Var y;
  if constexpr (std::same_as<Options, BatchNormOptions>) {
    y = ad::batch_norm(x, mean, variance, this->weight_, this->bias_, by_input, momentum, eps_).y;
  } else {
    y = ad::instance_norm(x, mean, variance, this->weight_, this->bias_, by_input, momentum, eps_).y;
  }
  if (training && mean.defined() && running_mean_.dtype() != DType::f32) {
    running_mean_.value().copy_(mean.value());
    running_var_.value().copy_(variance.value());
  }
  return y;
}

template <class Derived, class Options, int kLeast, int kMost>
std::string ChannelNorm<Derived, Options, kLeast, kMost>::details() const {
  std::ostringstream text;
  text << features_ << ", eps = " << eps_;
  return text.str();
}

template class ChannelNorm<BatchNorm1d, BatchNormOptions, 2, 3>;
template class ChannelNorm<BatchNorm2d, BatchNormOptions, 4, 4>;
template class ChannelNorm<BatchNorm3d, BatchNormOptions, 5, 5>;
template class ChannelNorm<InstanceNorm, InstanceNormOptions, 3, kMaxRank>;
template class ChannelNorm<InstanceNorm1d, InstanceNormOptions, 3, 3>;
template class ChannelNorm<InstanceNorm2d, InstanceNormOptions, 4, 4>;
template class ChannelNorm<InstanceNorm3d, InstanceNormOptions, 5, 5>;

GroupNorm::GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options)
    : groups_(num_groups), channels_(num_channels), eps_(options.eps) {
  check_positive(typeid(GroupNorm), "num_groups", num_groups);
  check_positive(typeid(GroupNorm), "num_channels", num_channels);
  if (num_channels % num_groups != 0) {
    throw ValueError("GroupNorm",
                     std::to_string(num_groups) + " groups of " + std::to_string(num_channels) + " channels",
                     "a number of groups that divides the channels", "Choose another number of groups");
  }
  if (options.affine) begin_as_identity({num_channels}, true, placement_of(options));
}

Var GroupNorm::forward(const Var& x) const {
  check_channels(typeid(GroupNorm), x, channels_, 2, kMaxRank);
  return ad::group_norm(x, weight_, bias_, groups_, eps_).y;
}

std::string GroupNorm::details() const {
  return std::to_string(groups_) + " groups of " + std::to_string(channels_) + " channels";
}

}  // namespace ashlar::nn

#include "nn/modules/channel_norm.h"

#include <sstream>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/checkpoint.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

void check_positive(const char* name, const char* what, int64_t count) {
  if (count > 0) return;
  throw ValueError(name, std::string(what) + " = " + std::to_string(count), "a positive number",
                   "Pass the size of axis 1 of x");
}

void check_channels(const char* name, const Var& x, int64_t channels, int least_rank, int most_rank) {
  const int rank = x.rank();
  if (rank >= least_rank && rank <= most_rank && x.size(1) == channels) return;
  const std::string ranks = least_rank == most_rank ? std::to_string(least_rank)
                                                    : std::to_string(least_rank) + " to " + std::to_string(most_rank);
  throw ShapeError(name, x.value().str(),
                   "a tensor of rank " + ranks + " whose axis 1 has the size " + std::to_string(channels),
                   "Give the module the channels of x, or reshape it");
}

}  // namespace

namespace detail {

ChannelStatistics::ChannelStatistics(const char* name, int64_t num_features, const BatchNormOptions& options)
    : name_(name), features_(num_features), eps_(options.eps), momentum_(options.momentum) {
  check_positive(name, "num_features", num_features);
  const Placement placement = placement_of(options);
  if (options.affine) {
    weight_ = Var(initial_full({num_features}, 1, placement), true);
    bias_ = Var(initial_full({num_features}, 0, placement), true);
  }
  if (!options.track_running_stats) return;
  running_mean_ = Var(Tensor::zeros({num_features}, DType::f32, options.device));
  running_var_ = Var(Tensor::ones({num_features}, DType::f32, options.device));
  batches_ = Var(Tensor::zeros({}, DType::i64, options.device));
}

void ChannelStatistics::tell(Members& members) {
  members.parameter("weight", weight_);
  members.parameter("bias", bias_);
  members.buffer("running_mean", running_mean_);
  members.buffer("running_var", running_var_);
  members.buffer("num_batches_tracked", batches_);
}

void ChannelStatistics::check(const Var& x, int least_rank, int most_rank) const {
  check_channels(name_, x, features_, least_rank, most_rank);
}

double ChannelStatistics::next_momentum() const {
  if (!batches_.defined()) return 0;
  const Tensor& batches = batches_.value();
  const Tensor one = Tensor::ones({}, DType::i64, batches.device());
  batches.copy_(add(batches, one));
  return momentum_ ? *momentum_ : 1.0 / static_cast<double>(batches.item());
}

template <class Norm>
Var ChannelStatistics::normalised(const Var& x, bool training, Norm norm) const {
  // What a checkpoint computes once more is counted once.
  const double momentum = training && !ad::is_recomputing() ? next_momentum() : 0;
  const bool by_input = training || !running_mean_.defined();
  // A module cast to 16 bits has its statistics in these; they move in f32.
  const auto in_f32 = [](const Var& running) {
    return running.defined() ? Var(running.value().to(DType::f32)) : running;
  };
  const Var mean = in_f32(running_mean_), variance = in_f32(running_var_);
  Var y = norm(x, mean, variance, weight_, bias_, by_input, momentum, eps_).y;
  if (training && mean.defined() && running_mean_.dtype() != DType::f32) {
    running_mean_.value().copy_(mean.value());
    running_var_.value().copy_(variance.value());
  }
  return y;
}

Var ChannelStatistics::batch_norm(const Var& x, bool training) const {
  return normalised(x, training, [](const auto&... arguments) { return ad::batch_norm(arguments...); });
}

Var ChannelStatistics::instance_norm(const Var& x, bool training) const {
  return normalised(x, training, [](const auto&... arguments) { return ad::instance_norm(arguments...); });
}

std::string ChannelStatistics::details() const {
  std::ostringstream text;
  text << features_ << ", eps = " << eps_;
  return text.str();
}

}  // namespace detail

GroupNorm::GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options)
    : groups_(num_groups), channels_(num_channels), eps_(options.eps) {
  check_positive("GroupNorm", "num_groups", num_groups);
  check_positive("GroupNorm", "num_channels", num_channels);
  if (num_channels % num_groups != 0) {
    throw ValueError("GroupNorm",
                     std::to_string(num_groups) + " groups of " + std::to_string(num_channels) + " channels",
                     "a number of groups that divides the channels", "Choose another number of groups");
  }
  if (!options.affine) return;
  weight_ = Var(initial_full({num_channels}, 1, placement_of(options)), true);
  bias_ = Var(initial_full({num_channels}, 0, placement_of(options)), true);
}

Var GroupNorm::forward(const Var& x) const {
  check_channels("GroupNorm", x, channels_, 2, kMaxRank);
  return ad::group_norm(x, weight_, bias_, groups_, eps_).y;
}

std::string GroupNorm::details() const {
  return std::to_string(groups_) + " groups of " + std::to_string(channels_) + " channels";
}

}  // namespace ashlar::nn

// Normalisation of channels, which are axis 1: over the batch, over groups of them, over each image.
#pragma once

#include <optional>

#include "nn/modules/weight_and_bias.h"

namespace ashlar::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  /// By how much running statistics move to a batch's; none: they are the mean of all batches so far.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;  ///< without them, evaluation uses x's own statistics as well
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< not drawn from
};

/// The same with torch.nn.InstanceNorm2d's defaults.
struct InstanceNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< not drawn from
};

/// What BatchNorm1d to 3d and InstanceNorm1d to 3d are: parameters and running statistics of channels. x has kLeast to
/// kMost axes.
template <class Derived, class Options, int kLeast, int kMost>
class ChannelNorm : public WeightAndBias<Derived> {
 public:
  /// Throws ValueError unless num_features is positive.
  explicit ChannelNorm(int64_t num_features, const Options& options = {});

  /// Throws ShapeError when x has other ranks or channels, or, where its own statistics are wanted, one value for each.
  Var forward(const Var& x) const;
  std::string details() const override;

 protected:
  void members(Members& members) override {
    WeightAndBias<Derived>::members(members);
    members.buffer("running_mean", running_mean_);
    members.buffer("running_var", running_var_);
    members.buffer("num_batches_tracked", batches_);
  }

 private:
  /// Counts a batch. Returns by how much running statistics move.
  double next_momentum() const;

  int64_t features_;
  double eps_;
  std::optional<double> momentum_;
  Var running_mean_, running_var_, batches_;
};

/// (x - mean) / sqrt(variance + eps) · weight + bias of x[batch, features] or [batch, features, length], with the mean
/// and variance of each feature over all else (Ioffe and Szegedy 2015, and torch.nn.BatchNorm1d): the batch's in
/// training, in evaluation the running ones. Parameters "weight" (ones at first) and "bias" (zeros), buffers
/// "running_mean", "running_var" and "num_batches_tracked" i64[].
class BatchNorm1d : public ChannelNorm<BatchNorm1d, BatchNormOptions, 2, 3> {
  using ChannelNorm::ChannelNorm;
};
/// The same of images x[batch, channels, height, width].
class BatchNorm2d : public ChannelNorm<BatchNorm2d, BatchNormOptions, 4, 4> {
  using ChannelNorm::ChannelNorm;
};
/// The same of x[batch, channels, depth, height, width].
class BatchNorm3d : public ChannelNorm<BatchNorm3d, BatchNormOptions, 5, 5> {
  using ChannelNorm::ChannelNorm;
};

/// The same with the mean and variance of each channel of each image (Ulyanov, Vedaldi and Lempitsky 2016, and
/// torch.nn.InstanceNorm2d), of x[batch, channels, …] of rank 3 or more. With track_running_stats, evaluation uses the
/// running ones.
class InstanceNorm : public ChannelNorm<InstanceNorm, InstanceNormOptions, 3, kMaxRank> {
  using ChannelNorm::ChannelNorm;
};
class InstanceNorm1d : public ChannelNorm<InstanceNorm1d, InstanceNormOptions, 3, 3> {
  using ChannelNorm::ChannelNorm;
};
class InstanceNorm2d : public ChannelNorm<InstanceNorm2d, InstanceNormOptions, 4, 4> {
  using ChannelNorm::ChannelNorm;
};
class InstanceNorm3d : public ChannelNorm<InstanceNorm3d, InstanceNormOptions, 5, 5> {
  using ChannelNorm::ChannelNorm;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< not drawn from
};

/// (x - mean) / sqrt(variance + eps) · weight + bias of x[batch, channels, …], with the mean and variance of each group
/// of channels of each image (Wu and He 2018, and torch.nn.GroupNorm). Parameters "weight" (ones at first) and "bias"
/// (zeros), one of each channel.
class GroupNorm : public WeightAndBias<GroupNorm> {
 public:
  /// Throws ValueError unless both numbers are positive and the groups divide the channels.
  GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options = {});

  /// Throws ShapeError when x has other channels.
  Var forward(const Var& x) const;
  std::string details() const override;

 private:
  int64_t groups_, channels_;
  double eps_;
};

}  // namespace ashlar::nn

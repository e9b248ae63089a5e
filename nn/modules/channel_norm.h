// Normalisation of channels, which are axis 1: over the batch, over groups of them, over each image.
#pragma once

#include <optional>

#include "nn/initial.h"
#include "nn/module.h"

namespace ashlar::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  /// By how much running statistics move to a batch's; none: they are the mean of all batches so far.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;  ///< without them, evaluation uses the batch's own statistics as well
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< not drawn from
};

namespace detail {

/// What BatchNorm1d, BatchNorm2d, InstanceNorm1d and InstanceNorm2d have: parameters and running statistics of
/// channels.
class ChannelStatistics {
 public:
  ChannelStatistics(const char* name, int64_t num_features, const BatchNormOptions& options);

  void tell(Members& members);
  /// Checks that x has the module's channels along axis 1 and one of these ranks. Throws ShapeError.
  void check(const Var& x, int least_rank, int most_rank) const;
  Var batch_norm(const Var& x, bool training) const;
  Var instance_norm(const Var& x, bool training) const;
  std::string details() const;

 private:
  /// Counts a batch. Returns by how much running statistics move.
  double next_momentum() const;
  template <class Norm>
  Var normalised(const Var& x, bool training, Norm norm) const;

  const char* name_;
  int64_t features_;
  double eps_;
  std::optional<double> momentum_;
  Var weight_, bias_, running_mean_, running_var_, batches_;
};

}  // namespace detail

/// (x - mean) / sqrt(variance + eps) · weight + bias of x[batch, features] or [batch, features, length], with the mean
/// and variance of each feature over all else (Ioffe and Szegedy 2015, and torch.nn.BatchNorm1d): the batch's in
/// training, in evaluation the running ones. Parameters "weight" (ones at first) and "bias" (zeros), buffers
/// "running_mean", "running_var" and "num_batches_tracked" i64[].
class BatchNorm1d : public ModuleOf<BatchNorm1d> {
 public:
  /// Throws ValueError unless num_features is positive.
  explicit BatchNorm1d(int64_t num_features, const BatchNormOptions& options = {})
      : channels_("BatchNorm1d", num_features, options) {}

  /// Throws ShapeError when x has other ranks or features, or, in training, one value for each feature.
  Var forward(const Var& x) const {
    channels_.check(x, 2, 3);
    return channels_.batch_norm(x, training());
  }
  std::string details() const override { return channels_.details(); }

 protected:
  void members(Members& members) override { channels_.tell(members); }

 private:
  detail::ChannelStatistics channels_;
};

/// The same of images x[batch, channels, height, width].
class BatchNorm2d : public ModuleOf<BatchNorm2d> {
 public:
  explicit BatchNorm2d(int64_t num_features, const BatchNormOptions& options = {})
      : channels_("BatchNorm2d", num_features, options) {}

  Var forward(const Var& x) const {
    channels_.check(x, 4, 4);
    return channels_.batch_norm(x, training());
  }
  std::string details() const override { return channels_.details(); }

 protected:
  void members(Members& members) override { channels_.tell(members); }

 private:
  detail::ChannelStatistics channels_;
};

/// torch.nn.InstanceNorm1d's and InstanceNorm2d's defaults.
struct InstanceNormOptions : BatchNormOptions {
  InstanceNormOptions() {
    affine = false;
    track_running_stats = false;
  }
};

/// The same with the mean and variance of each channel of each image (Ulyanov, Vedaldi and Lempitsky 2016, and
/// torch.nn.InstanceNorm2d), of x[batch, channels, …] of rank 3 or more. With track_running_stats, evaluation uses the
/// running ones.
class InstanceNorm : public ModuleOf<InstanceNorm> {
 public:
  /// Throws ValueError unless num_features is positive.
  explicit InstanceNorm(int64_t num_features, const InstanceNormOptions& options = {})
      : channels_("InstanceNorm", num_features, options) {}

  /// Throws ShapeError when x has another rank or other channels, or one value for each.
  Var forward(const Var& x) const {
    channels_.check(x, 3, kMaxRank);
    return channels_.instance_norm(x, training());
  }
  std::string details() const override { return channels_.details(); }

 protected:
  void members(Members& members) override { channels_.tell(members); }

 private:
  detail::ChannelStatistics channels_;
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
class GroupNorm : public ModuleOf<GroupNorm> {
 public:
  /// Throws ValueError unless both numbers are positive and the groups divide the channels.
  GroupNorm(int64_t num_groups, int64_t num_channels, const GroupNormOptions& options = {});

  /// Throws ShapeError when x has other channels.
  Var forward(const Var& x) const;
  std::string details() const override;

 protected:
  void members(Members& members) override {
    members.parameter("weight", weight_);
    members.parameter("bias", bias_);
  }

 private:
  int64_t groups_, channels_;
  double eps_;
  Var weight_, bias_;
};

}  // namespace ashlar::nn

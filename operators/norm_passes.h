// The passes over memory of which batch_norm, group_norm and instance_norm consist: means and variances, the result,
// the sums of their gradients, the gradient of x. One each; what is between them has an element for each channel.
#pragma once

#include <optional>

#include "runtime/tensor/tensor.h"

namespace ashlar {

struct Moments {
  Tensor mean, rstd, variance;  ///< f32; rstd = 1 / √(variance with correction 0 + eps)
};

/// x[outer, reduced, inner] (f32, any strides) over the middle axis: each [outer, inner].
Moments moments_of(const Tensor& x, double eps, double correction);

/// The same over the first and last axes of a dense x[batch, channels, space]: each [channels].
Moments moments_of_channels(const Tensor& x, double eps, double correction);

struct GradientSums {
  Tensor slope, dot;  ///< f32: Σ dy and Σ dy (x - mean) rstd
};

/// Dense dy and x[batch, channels, space] (f32), mean and rstd of [batch, channels] or [1, channels]: sums over the
/// space in [batch, channels], or with `over_batch`, which needs the latter, over the batch too, in [channels].
GradientSums gradient_sums(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd, bool over_batch);

/// y = (x - mean) rstd weight + bias, broadcast to x; weight and bias may be undefined. All but x in f32.
Tensor normalised(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight, const Tensor& bias);

/// dx = rstd (dy weight - share (slope + (x - mean) rstd dot)), broadcast to x. The sums are of dy weight, or, where
/// all of each has one weight, `of_dy` alone. All but dy and x in f32.
Tensor gradient_of_normalised(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                              const Tensor& weight, const GradientSums& sums, double share, bool of_dy);

/// Row r of a matrix as group r mod `groups` of an image: `in_group` channels of `space` places each. A plain row is
/// the only group, its columns the channels.
struct ChannelsOfRows {
  int64_t groups, in_group, space = 1;
  int64_t columns() const { return in_group * space; }
};

/// What follows is of rows that a GPU reads once: none on the CPU, of rows too long for that, and where it wouldn't be
/// quicker. Dense f32 [rows, columns] with elements, statistics of [rows], dense weight and bias of [groups ·
/// in_group]; without a mean none is taken off, without a weight it is 1, without a bias 0.
struct NormalisedRows {
  Tensor y;
  Moments moments;  ///< with correction 0
};
std::optional<NormalisedRows> normalised_rows(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                              const ChannelsOfRows& channels, double eps);

struct RowGradients {
  Tensor dx;
  Tensor dweight, dbias;  ///< Σ dy (x - mean) rstd and Σ dy, of weight's shape
};
/// A dh, dense as x, is added to dx.
std::optional<RowGradients> gradients_of_rows_at_once(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                                      const Tensor& rstd, const Tensor& weight,
                                                      const ChannelsOfRows& channels, const Tensor& dh = {});

/// running += momentum (the batch's - running), in place: f32 of [channels], dense.
void move_running_moments(const Tensor& running_mean, const Tensor& running_var, const Tensor& mean,
                          const Tensor& variance, double momentum);

/// What shares a mean: x[o,j,r,s] (f32, each line s dense) has one for each o and r.
struct Groups {
  Tensor x;
  Tensor weight, bias;  ///< f32, of [o,j,r]; may be undefined

  /// Of a dense x[batch, channels, space]: of each channel, or with `groups` > 0 of so many groups of each image.
  Groups(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups);
  /// Whether the CPU has all of it in one pass over memory.
  bool are_in_one_pass() const;
  /// As x lies, and lines' numbers as they lie for x[batch, channels, space].
  Tensor as_given(const Tensor& of_x) const;
  Tensor of_channels(const Tensor& of_lines) const;  ///< [batch, channels]

 private:
  bool are_of_image_;
};

struct NormalisedGroups {
  Tensor y;         ///< as x
  Moments moments;  ///< each [o,r]
};
NormalisedGroups normalised_groups(const Groups& groups, double eps, double correction);

struct GroupGradients {
  Tensor dx;
  GradientSums of_lines;  ///< each [o,j,r]
};
/// mean and rstd of [o,r], constants or x's own; dy as x is.
GroupGradients gradients_of_groups(const Groups& groups, const Tensor& dy, const Tensor& mean, const Tensor& rstd,
                                   bool of_constants);

}  // namespace ashlar

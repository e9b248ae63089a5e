// Gradients of what a normalisation has for each column.
#pragma once

#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// dweight[c] = Σ_r dy[r,c] (x[r,c] - mean[r]) rstd[r] with c along `axis` and r over all others, summed in f32 in an
/// order given by the shape and rounded once to x's dtype: [columns]. An undefined `mean` is 0.
Tensor norm_weight_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd, int64_t axis);

/// Σ_r dy[r,c] with c along `axis` and r over all others: [columns].
Tensor sum_to_axis(const Tensor& dy, int64_t axis);

/// batch_norm's {dx, -, -, dweight, dbias}, from the mean and rstd that it used of each channel: of the batch in
/// `training`, else constants. With z = (x - mean) rstd, g = dy weight and n elements to a mean:
/// dx = rstd (g - Σ g / n - z Σ g z / n), where they are constants rstd g; dweight = Σ dy z, dbias = Σ dy.
std::vector<Tensor> batch_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& weight, bool training);

/// group_norm's {dx, dweight, dbias}: the same with a mean for each group of each image.
std::vector<Tensor> group_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& weight, int64_t groups);

/// instance_norm's {dx, -, -, dweight, dbias}: each channel is a group; or of running statistics, as batch_norm's.
std::vector<Tensor> instance_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                       const Tensor& weight, bool use_input_stats);

/// var, mean = var_mean(x, axes): dx = 2 dvar (x - mean) / (n - correction) + dmean / n.
Tensor var_mean_grad(const Tensor& dvar, const Tensor& dmean, const Tensor& x, const Shape& axes, bool keepdim,
                     double correction);

}  // namespace ashlar::recipes

// Gradients of normalisations. Of Tensors by kernels, from the mean and rstd that were saved; of Vars composed of
// operators, with the mean and rstd worked out of x again, since they depend on it.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/node.h"
#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y = z weight + bias, z = (x - mean) rstd, rstd = 1 / √(variance + eps) along `axis`, with g = dy weight:
/// dx = rstd (g - Σ g / n - z Σ g z / n). An undefined weight is 1.
template <class T>
T layer_norm_input_grad(const T& dy, const T& x, const T& mean, const T& rstd, const T& weight, double eps,
                        int64_t axis);

/// dweight[c] = Σ_r dy[r,c] z[r,c] with c along `axis` and r over all others, summed in f32 in an order given by the
/// shape and rounded once to x's dtype: [columns].
template <class T>
T layer_norm_weight_grad(const T& dy, const T& x, const T& mean, const T& rstd, double eps, int64_t axis);

/// The same with z = x rstd, rstd = 1 / √(Σ x² / n + eps): dx = rstd (g - z Σ g z / n).
template <class T>
T rms_norm_input_grad(const T& dy, const T& x, const T& rstd, const T& weight, double eps, int64_t axis);
template <class T>
T rms_norm_weight_grad(const T& dy, const T& x, const T& rstd, double eps, int64_t axis);

/// layer_norm's {dx, dweight, dbias} and rms_norm's {dx, dweight}, where `needs` asks for them: as the functions above,
/// and on the CPU in one pass over dy and x.
template <class T>
std::vector<T> layer_norm_gradients(const T& dy, const T& x, const T& mean, const T& rstd, const T& weight, double eps,
                                    int64_t axis, Needs needs);
template <class T>
std::vector<T> rms_norm_gradients(const T& dy, const T& x, const T& rstd, const T& weight, double eps, int64_t axis,
                                  Needs needs);

/// add_layer_norm's {dx, dresidual, dweight, dbias}, where `needs` asks for them: the first two are dh and
/// layer_norm_input_grad of h, added up in the same pass, which on GPUs has the others' sums as well. An undefined dh
/// is none: as layer_norm_gradients() of h.
template <class T>
std::vector<T> add_layer_norm_gradients(const T& dy, const T& dh, const T& h, const T& mean, const T& rstd,
                                        const T& weight, double eps, int64_t axis, Needs needs);
/// add_rms_norm's {dx, dresidual, dweight}, the same.
template <class T>
std::vector<T> add_rms_norm_gradients(const T& dy, const T& dh, const T& h, const T& rstd, const T& weight, double eps,
                                      int64_t axis, Needs needs);

/// Σ_r dy[r,c] with c along `axis` and r over all others: [columns].
template <class T>
T sum_to_axis(const T& dy, int64_t axis);

/// batch_norm's {dx, -, -, dweight, dbias}, from the mean and rstd that it used of each channel: of the batch in
/// `training`, else constants. With z = (x - mean) rstd, g = dy weight and n elements to a mean:
/// dx = rstd (g - Σ g / n - z Σ g z / n), where they are constants rstd g; dweight = Σ dy z, dbias = Σ dy.
template <class T>
std::vector<T> batch_norm_grad(const T& dy, const T& x, const T& mean, const T& rstd, const T& weight, bool training,
                               double eps);

/// group_norm's {dx, dweight, dbias}: the same with a mean for each group of each image.
template <class T>
std::vector<T> group_norm_grad(const T& dy, const T& x, const T& mean, const T& rstd, const T& weight, int64_t groups,
                               double eps);

/// instance_norm's {dx, -, -, dweight, dbias}: each channel is a group; or of running statistics, as batch_norm's.
template <class T>
std::vector<T> instance_norm_grad(const T& dy, const T& x, const T& mean, const T& rstd, const T& weight,
                                  bool use_input_stats, double eps);

/// var, mean = var_mean(x, axes): dx = 2 dvar (x - mean) / (n - correction) + dmean / n.
template <class T>
T var_mean_grad(const T& dvar, const T& dmean, const T& x, const Shape& axes, bool keepdim, double correction);

}  // namespace ashlar::recipes

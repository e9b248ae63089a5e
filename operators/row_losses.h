// Losses of rows, a kernel each way (generators/row_losses.cpp, cross_entropy.cpp), for the operators composed of them
// (operators/composed/row_losses.h) and their gradients, which are those of the same functions of Vars
// (autograd/recipes/row_losses.h).
#pragma once

#include <vector>

#include "runtime/launch/launch.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// How classes along an axis count: each has its weight, f32, undefined: 1; labels that are ignored have no loss, and
/// so much of each label goes to all classes alike.
struct ClassOptions {
  int axis = 0;
  Tensor weight = {};
  int64_t ignore_index = -100;
  double label_smoothing = 0;
};

/// Losses, and what each counts in a mean.
template <class T>
struct CountedRows {
  T loss;
  Tensor counted;
};

/// A row kernel's results along an axis.
std::vector<Tensor> run_rows(const KernelInfo& kernel, const std::vector<Tensor>& inputs, int axis,
                             const std::vector<Scalar>& scalars);

/// -weight[l] log softmax(logits)[l] of labels l, smoothed.
CountedRows<Tensor> cross_entropy_rows(const Tensor& logits, const Tensor& labels, const ClassOptions& options);
/// -Σ_c weight[c] target[c] log softmax(logits)[c], the target smoothed; both of f32.
Tensor cross_entropy_of_shares(const Tensor& logits, const Tensor& target, const ClassOptions& options);
/// -weight[l] x[l] of labels l, x of f32.
CountedRows<Tensor> nll_rows(const Tensor& x, const Tensor& labels, const ClassOptions& options);

/// The least norm of a row whose cosine is taken.
inline constexpr double kLeastNorm = 1e-8;
/// 1 - cos(a, b) where the sign is 1, max(cos(a, b) - margin, 0) where it is -1, along the last axis; all of f32.
Tensor cosine_embedding_rows(const Tensor& a, const Tensor& b, const Tensor& signs, double margin);
/// max(|a - p + eps| - |a - n + eps| + margin, 0) along the last axis, or with the negative's distance from the
/// positive where `swap` asks for it and it is less; all of f32.
Tensor triplet_margin_rows(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin,
                           double eps, bool swap);

}  // namespace ashlar

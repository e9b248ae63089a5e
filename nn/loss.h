// Losses: from predictions and targets to one number, or one for each element or row. Names, arguments and defaults are
// torch.nn.functional's. Each is an operator with these options (generators/losses.cpp, row_losses.cpp), one kernel
// each way but for binary_cross_entropy() with weights, cosine_similarity() and margin_ranking_loss(), which are
// composed.
#pragma once

#include <cstdint>
#include <optional>

#include "ashlar/ad/cross_entropy.h"
#include "ashlar/ad/losses.h"
#include "ashlar/ad/reduction.h"
#include "ashlar/ad/row_losses.h"
#include "autograd/var.h"

namespace ashlar::nn {

/// What becomes of the losses of all elements or rows.
enum class Reduction : uint8_t { none, mean, sum };

// ---- element by element: input and target are broadcast; the result has the input's dtype, with none the shape where
// they meet. The mean of no elements is NaN. Throws ShapeError, DTypeError, DeviceError.

/// (x - t)²
inline Var mse_loss(const Var& input, const Var& target, Reduction reduction = Reduction::mean) {
  return ad::mse_loss(input, target, static_cast<MseLossReduction>(reduction));
}

/// |x - t|
inline Var l1_loss(const Var& input, const Var& target, Reduction reduction = Reduction::mean) {
  return ad::l1_loss(input, target, static_cast<L1LossReduction>(reduction));
}

/// d² / (2 beta) where d = |x - t| is less than beta, else d - beta/2 (Girshick 2015). Throws ValueError on beta < 0.
inline Var smooth_l1_loss(const Var& input, const Var& target, Reduction reduction = Reduction::mean,
                          double beta = 1.0) {
  return ad::smooth_l1_loss(input, target, beta, static_cast<SmoothL1LossReduction>(reduction));
}

/// d² / 2 where d = |x - t| is at most delta, else delta (d - delta/2) (Huber 1964). Throws ValueError unless delta >
/// 0.
inline Var huber_loss(const Var& input, const Var& target, Reduction reduction = Reduction::mean, double delta = 1.0) {
  return ad::huber_loss(input, target, delta, static_cast<HuberLossReduction>(reduction));
}

struct BinaryCrossEntropyOptions {
  Tensor weight = {};      ///< of each element, broadcast; undefined: 1
  Tensor pos_weight = {};  ///< with logits: of the positive term, broadcast; undefined: 1
  Reduction reduction = Reduction::mean;
};

/// -weight (t ln x + (1 - t) ln(1 - x)), x being probabilities; logarithms are held at -100. (A probability outside of
/// [0, 1] makes it NaN.) Throws ValueError where a pos_weight is given.
Var binary_cross_entropy(const Var& input, const Var& target, const BinaryCrossEntropyOptions& options = {});

/// The same of x = sigmoid(input), computed without it: weight (ln(1 + e^x) - t x), where a pos_weight p isn't 1
/// weight ((1 - t) x + (1 + (p - 1) t) ln(1 + e^-x)).
Var binary_cross_entropy_with_logits(const Var& input, const Var& target,
                                     const BinaryCrossEntropyOptions& options = {});

struct KlDivOptions {
  Reduction reduction = Reduction::mean;
  bool batchmean = false;   ///< the sum divided by the size of axis 0, which is the divergence's definition
  bool log_target = false;  ///< the target holds logarithms, too
};

/// t (ln t - x), x being logarithms of probabilities (Kullback and Leibler 1951).
Var kl_div(const Var& input, const Var& target, const KlDivOptions& options = {});

// ---- of classes

/// Mean over rows of -log softmax(logits)[label]: logits [rows, classes], labels i64 [rows]. Rank 0, f32. A label
/// outside of [0, classes) makes the loss NaN.
inline Var cross_entropy(const Var& logits, const Tensor& labels) {
  return ad::mean(ad::cross_entropy(logits, labels));
}

struct CrossEntropyOptions {
  Tensor weight = {};           ///< of each class, f32 [classes]; undefined: 1
  int64_t ignore_index = -100;  ///< rows with this label have no loss and don't count
  double label_smoothing = 0;   ///< so much of each label goes to all classes alike (Szegedy et al. 2016)
  Reduction reduction = Reduction::mean;
};

/// The same with PyTorch's options, the classes along axis 1 (of rank 1 axis 0). `target`: labels, i64 of the logits'
/// shape without the classes; or of their shape, floating, the probabilities of all classes. A mean is weighted by the
/// labels' weights, with probabilities divided by the number of rows. f32. Throws ValueError, ShapeError.
Var cross_entropy(const Var& logits, const Var& target, const CrossEntropyOptions& options);

/// -weight[label] x[label] of logarithms x of probabilities; label_smoothing must be 0. Otherwise as cross_entropy().
Var nll_loss(const Var& input, const Tensor& labels, const CrossEntropyOptions& options = {});

// ---- of pairs and triples

/// cosine_similarity(a, b, axis = 1, eps = 1e-8): a·b / (|a| |b|) along an axis, each norm at least eps.
using ad::cosine_similarity;

/// 1 - cos(a, b) where the target is 1, max(cos(a, b) - margin, 0) where it is -1; rows along the last axis.
Var cosine_embedding_loss(const Var& a, const Var& b, const Tensor& target, double margin = 0,
                          Reduction reduction = Reduction::mean);

/// x where the target is 1, max(margin - x, 0) where it is -1.
Var hinge_embedding_loss(const Var& input, const Tensor& target, double margin = 1,
                         Reduction reduction = Reduction::mean);

/// max(margin - t (a - b), 0), t being 1 or -1.
Var margin_ranking_loss(const Var& a, const Var& b, const Tensor& target, double margin = 0,
                        Reduction reduction = Reduction::mean);

struct TripletOptions {
  double margin = 1, eps = 1e-6;
  bool swap = false;  ///< the negative's distance from the positive counts where it is less (Balntas et al. 2016)
  Reduction reduction = Reduction::mean;
};

/// max(|a - p + eps| - |a - n + eps| + margin, 0), distances along the last axis.
Var triplet_margin_loss(const Var& anchor, const Var& positive, const Var& negative,
                        const TripletOptions& options = {});

}  // namespace ashlar::nn

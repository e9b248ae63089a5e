// Losses of rows with PyTorch's options: of classes along an axis, of pairs and triples of rows.
#pragma once

#include "ashlar/ops/binary.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/row_losses.h"
#include "ashlar/ops/unary.h"
#include "operators/composed/values.h"
#include "operators/row_losses.h"

namespace ashlar::composed {

/// Losses of elements or rows, their mean or their sum. `Reduction` has none, mean and sum in this order.
template <class T, class Reduction>
T reduced(const T& each, Reduction reduction) {
  if (reduction == Reduction::none) return each;
  return reduction == Reduction::mean ? T(mean(each)) : T(sum(each));
}

/// The same of classes, whose mean is one by their weights.
template <class T, class Reduction>
T reduced(const CountedRows<T>& rows, Reduction reduction) {
  if (reduction != Reduction::mean) return reduced(rows.loss, reduction);
  return div(T(sum(rows.loss)), T(sum(rows.counted)));
}

/// How the classes of `logits` count, which stand along axis 1 (of rank 1 axis 0). Throws ShapeError, ValueError.
template <class T>
ClassOptions class_options(const char* operation, const T& logits, const T& weight, int64_t ignore_index,
                           double label_smoothing) {
  const int rank = logits.shape().rank();
  if (rank == 0) {
    throw ShapeError(operation, shown(logits), "an axis of classes", "Give logits of shape [rows, classes]");
  }
  const int axis = rank == 1 ? 0 : 1;
  const int64_t classes = logits.size(axis);
  if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
    throw ValueError(operation, "label_smoothing = " + std::to_string(label_smoothing), "a number from 0 to 1",
                     "It is the part of a label that goes to all classes");
  }
  if (!weight.defined()) return {axis, {}, ignore_index, label_smoothing};
  if (weight.shape() != Shape{classes}) {
    throw ShapeError(operation, "weight: " + shown(weight) + " for logits: " + shown(logits),
                     "a weight for each of the " + std::to_string(classes) + " classes", "Give f32 [classes]");
  }
  return {axis, value_of(weight).to(DType::f32), ignore_index, label_smoothing};
}

template <class T>
void check_labels(const char* operation, const T& logits, int axis, const Tensor& labels) {
  Shape rows = logits.shape();
  rows.erase(axis);
  if (labels.dtype() == DType::i64 && labels.shape() == rows) return;
  throw ShapeError(operation, "logits: " + shown(logits) + ", labels: " + labels.str(), "labels of i64" + rows.str(),
                   "Give one label for each row, or probabilities of all classes");
}

template <class T>
T cross_entropy_loss(const T& input, const T& target, CrossEntropyLossReduction reduction, int64_t ignore_index,
                     const T& weight, double label_smoothing) {
  constexpr const char* kName = "cross_entropy_loss";
  const ClassOptions options = class_options(kName, input, weight, ignore_index, label_smoothing);
  if (!is_floating(target.dtype())) {
    check_labels(kName, input, options.axis, value_of(target));
    return reduced(cross_entropy_rows(T(input.to(DType::f32)), value_of(target), options), reduction);
  }
  if (target.shape() != input.shape()) {
    throw ShapeError(kName, "logits: " + shown(input) + ", target: " + shown(target),
                     "probabilities of the logits' shape, or labels of i64", "Give a probability for each class");
  }
  const T each = cross_entropy_of_shares(T(input.to(DType::f32)), T(target.to(DType::f32)), options);
  if (reduction != CrossEntropyLossReduction::mean) return reduced(each, reduction);
  return affine(T(sum(each)), 1 / static_cast<double>(each.numel()), 0);
}

template <class T>
T nll_loss(const T& input, const Tensor& target, NllLossReduction reduction, int64_t ignore_index, const T& weight) {
  constexpr const char* kName = "nll_loss";
  const ClassOptions options = class_options(kName, input, weight, ignore_index, 0);
  check_labels(kName, input, options.axis, target);
  return reduced(nll_rows(T(input.to(DType::f32)), target, options), reduction);
}

template <class T>
T cosine_similarity(const T& a, const T& b, int64_t axis, double eps) {
  // The axis is one of both as they are broadcast.
  const Shape both = broadcast("cosine_similarity", a.shape(), b.shape());
  const T x = a.broadcast_to(both), y = b.broadcast_to(both);
  // norm(), unlike a square root of squares, has a gradient at zeros: 0.
  const auto length = [&](const T& v) { return T(maximum(T(norm(v, 2, {axis})), eps)); };
  return T(sum(T(mul(x, y)), {axis})) / T(mul(length(x), length(y)));
}

template <class T>
T cosine_embedding_loss(const T& a, const T& b, const T& target, double margin,
                        CosineEmbeddingLossReduction reduction) {
  constexpr const char* kName = "cosine_embedding_loss";
  const Shape both = broadcast(kName, a.shape(), b.shape());
  if (both.rank() == 0) throw ShapeError(kName, "numbers", "rows of one or more numbers", "Use unsqueeze(0)");
  Shape rows = both;
  rows.erase(both.rank() - 1);
  const Tensor signs = value_of(target).to(DType::f32).broadcast_to(rows);
  const T each = cosine_embedding_rows(T(a.to(DType::f32).broadcast_to(both)), T(b.to(DType::f32).broadcast_to(both)),
                                       signs, margin);
  return reduced(each, reduction).to(a.dtype());
}

template <class T>
T margin_ranking_loss(const T& a, const T& b, const T& target, double margin, MarginRankingLossReduction reduction) {
  return reduced(T(relu(margin - T(mul(T(target.to(a.dtype())), T(a - b))))), reduction);
}

template <class T>
T triplet_margin_loss(const T& anchor, const T& positive, const T& negative, double margin, double eps, bool swap,
                      TripletMarginLossReduction reduction) {
  constexpr const char* kName = "triplet_margin_loss";
  const Shape all = broadcast(kName, broadcast(kName, anchor.shape(), positive.shape()), negative.shape());
  if (all.rank() == 0) throw ShapeError(kName, "numbers", "rows of one or more numbers", "Use unsqueeze(0)");
  const auto rows = [&](const T& x) { return T(x.to(DType::f32).broadcast_to(all)); };
  const T each = triplet_margin_rows(rows(anchor), rows(positive), rows(negative), margin, eps, swap);
  return reduced(each, reduction).to(anchor.dtype());
}

}  // namespace ashlar::composed

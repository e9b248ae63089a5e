#include "nn/loss.h"

#include <string>

#include "ashlar/var_arithmetic.h"
#include "runtime/support/error.h"
#include "runtime/tensor/promotion.h"

namespace ashlar::nn {
namespace {

/// A weight, or none, as a constant.
Var constant(const Tensor& weight) { return weight.defined() ? Var(weight) : Var(); }

}  // namespace

Var binary_cross_entropy(const Var& input, const Var& target, const BinaryCrossEntropyOptions& options) {
  if (options.pos_weight.defined()) {
    throw ValueError("binary_cross_entropy", "a pos_weight", "none", "Call binary_cross_entropy_with_logits()");
  }
  const Tensor& weight = options.weight;
  const DType meeting = weight.defined() ? result_type(input.value(), weight) : input.dtype();
  return ad::binary_cross_entropy(input.to(meeting), target.to(meeting),
                                  static_cast<BinaryCrossEntropyReduction>(options.reduction), constant(weight));
}

Var binary_cross_entropy_with_logits(const Var& input, const Var& target, const BinaryCrossEntropyOptions& options) {
  const auto reduction = static_cast<BinaryCrossEntropyWithLogitsReduction>(options.reduction);
  if (!options.weight.defined() && !options.pos_weight.defined()) {
    return ad::binary_cross_entropy_with_logits(input, target, reduction);
  }
  return ad::binary_cross_entropy_with_logits(input.to(DType::f32), target.to(DType::f32), reduction,
                                              constant(options.weight), constant(options.pos_weight))
      .to(input.dtype());
}

Var kl_div(const Var& input, const Var& target, const KlDivOptions& options) {
  const auto reduction = options.batchmean ? KlDivReduction::batchmean : static_cast<KlDivReduction>(options.reduction);
  return ad::kl_div(input, target, reduction, options.log_target);
}

Var cross_entropy(const Var& logits, const Var& target, const CrossEntropyOptions& options) {
  return ad::cross_entropy_loss(logits, target, static_cast<CrossEntropyLossReduction>(options.reduction),
                                options.ignore_index, constant(options.weight), options.label_smoothing);
}

Var nll_loss(const Var& input, const Tensor& labels, const CrossEntropyOptions& options) {
  if (options.label_smoothing != 0) {
    throw ValueError("nll_loss", "label_smoothing = " + std::to_string(options.label_smoothing), "none",
                     "Call cross_entropy() with logits");
  }
  return ad::nll_loss(input, labels, static_cast<NllLossReduction>(options.reduction), options.ignore_index,
                      constant(options.weight));
}

Var cosine_embedding_loss(const Var& a, const Var& b, const Tensor& target, double margin, Reduction reduction) {
  return ad::cosine_embedding_loss(a, b, target, margin, static_cast<CosineEmbeddingLossReduction>(reduction));
}

Var hinge_embedding_loss(const Var& input, const Tensor& target, double margin, Reduction reduction) {
  return ad::hinge_embedding_loss(input, Var(target.to(input.dtype())), margin,
                                  static_cast<HingeEmbeddingLossReduction>(reduction));
}

Var margin_ranking_loss(const Var& a, const Var& b, const Tensor& target, double margin, Reduction reduction) {
  return ad::margin_ranking_loss(a, b, target, margin, static_cast<MarginRankingLossReduction>(reduction));
}

Var triplet_margin_loss(const Var& anchor, const Var& positive, const Var& negative, const TripletOptions& options) {
  return ad::triplet_margin_loss(anchor, positive, negative, options.margin, options.eps, options.swap,
                                 static_cast<TripletMarginLossReduction>(options.reduction));
}

}  // namespace ashlar::nn

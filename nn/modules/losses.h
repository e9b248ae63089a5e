// Losses as modules without parameters: the functions of nn/loss.h with their options, named as torch.nn names them.
#pragma once

#include <concepts>
#include <tuple>

#include "nn/loss.h"
#include "nn/module.h"

namespace ashlar::nn {

/// A function of predictions and targets as a module, with settings that it is made with.
template <class Derived, auto kFunction, class... Settings>
class Loss : public ModuleOf<Derived> {
 public:
  explicit Loss(const Settings&... settings) : settings_(settings...) {}

  template <class... Inputs>
  requires(std::invocable<decltype(kFunction), const Inputs&..., const Settings&...>) Var
      forward(const Inputs&... inputs)
  const {
    return std::apply([&](const Settings&... setting) { return kFunction(inputs..., setting...); }, settings_);
  }

 private:
  std::tuple<Settings...> settings_;
};

class MSELoss : public Loss<MSELoss, mse_loss, Reduction> {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean) : Loss(reduction) {}
};

class L1Loss : public Loss<L1Loss, l1_loss, Reduction> {
 public:
  explicit L1Loss(Reduction reduction = Reduction::mean) : Loss(reduction) {}
};

class SmoothL1Loss : public Loss<SmoothL1Loss, smooth_l1_loss, Reduction, double> {
 public:
  explicit SmoothL1Loss(Reduction reduction = Reduction::mean, double beta = 1) : Loss(reduction, beta) {}
};

class HuberLoss : public Loss<HuberLoss, huber_loss, Reduction, double> {
 public:
  explicit HuberLoss(Reduction reduction = Reduction::mean, double delta = 1) : Loss(reduction, delta) {}
};

class BCELoss : public Loss<BCELoss, binary_cross_entropy, BinaryCrossEntropyOptions> {
 public:
  explicit BCELoss(const BinaryCrossEntropyOptions& options = {}) : Loss(options) {}
};

class BCEWithLogitsLoss : public Loss<BCEWithLogitsLoss, binary_cross_entropy_with_logits, BinaryCrossEntropyOptions> {
 public:
  explicit BCEWithLogitsLoss(const BinaryCrossEntropyOptions& options = {}) : Loss(options) {}
};

class KLDivLoss : public Loss<KLDivLoss, kl_div, KlDivOptions> {
 public:
  explicit KLDivLoss(const KlDivOptions& options = {}) : Loss(options) {}
};

using CrossEntropyOfOptions = Var (*)(const Var& logits, const Var& target, const CrossEntropyOptions& options);
class CrossEntropyLoss
    : public Loss<CrossEntropyLoss, static_cast<CrossEntropyOfOptions>(cross_entropy), CrossEntropyOptions> {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {}) : Loss(options) {}
};

class NLLLoss : public Loss<NLLLoss, nll_loss, CrossEntropyOptions> {
 public:
  explicit NLLLoss(const CrossEntropyOptions& options = {}) : Loss(options) {}
};

class CosineEmbeddingLoss : public Loss<CosineEmbeddingLoss, cosine_embedding_loss, double, Reduction> {
 public:
  explicit CosineEmbeddingLoss(double margin = 0, Reduction reduction = Reduction::mean) : Loss(margin, reduction) {}
};

class HingeEmbeddingLoss : public Loss<HingeEmbeddingLoss, hinge_embedding_loss, double, Reduction> {
 public:
  explicit HingeEmbeddingLoss(double margin = 1, Reduction reduction = Reduction::mean) : Loss(margin, reduction) {}
};

class MarginRankingLoss : public Loss<MarginRankingLoss, margin_ranking_loss, double, Reduction> {
 public:
  explicit MarginRankingLoss(double margin = 0, Reduction reduction = Reduction::mean) : Loss(margin, reduction) {}
};

class TripletMarginLoss : public Loss<TripletMarginLoss, triplet_margin_loss, TripletOptions> {
 public:
  explicit TripletMarginLoss(const TripletOptions& options = {}) : Loss(options) {}
};

}  // namespace ashlar::nn

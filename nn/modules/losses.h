// Losses as modules without parameters: the functions of nn/loss.h with their options, named as torch.nn names them.
#pragma once

#include "nn/loss.h"
#include "nn/module.h"

namespace ashlar::nn {

class MSELoss : public ModuleOf<MSELoss> {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  Var forward(const Var& input, const Var& target) const { return mse_loss(input, target, reduction_); }

 private:
  Reduction reduction_;
};

class L1Loss : public ModuleOf<L1Loss> {
 public:
  explicit L1Loss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  Var forward(const Var& input, const Var& target) const { return l1_loss(input, target, reduction_); }

 private:
  Reduction reduction_;
};

class SmoothL1Loss : public ModuleOf<SmoothL1Loss> {
 public:
  explicit SmoothL1Loss(Reduction reduction = Reduction::mean, double beta = 1) : reduction_(reduction), beta_(beta) {}
  Var forward(const Var& input, const Var& target) const { return smooth_l1_loss(input, target, reduction_, beta_); }

 private:
  Reduction reduction_;
  double beta_;
};

class HuberLoss : public ModuleOf<HuberLoss> {
 public:
  explicit HuberLoss(Reduction reduction = Reduction::mean, double delta = 1) : reduction_(reduction), delta_(delta) {}
  Var forward(const Var& input, const Var& target) const { return huber_loss(input, target, reduction_, delta_); }

 private:
  Reduction reduction_;
  double delta_;
};

class BCELoss : public ModuleOf<BCELoss> {
 public:
  explicit BCELoss(const BinaryCrossEntropyOptions& options = {}) : options_(options) {}
  Var forward(const Var& input, const Var& target) const { return binary_cross_entropy(input, target, options_); }

 private:
  BinaryCrossEntropyOptions options_;
};

class BCEWithLogitsLoss : public ModuleOf<BCEWithLogitsLoss> {
 public:
  explicit BCEWithLogitsLoss(const BinaryCrossEntropyOptions& options = {}) : options_(options) {}
  Var forward(const Var& input, const Var& target) const {
    return binary_cross_entropy_with_logits(input, target, options_);
  }

 private:
  BinaryCrossEntropyOptions options_;
};

class KLDivLoss : public ModuleOf<KLDivLoss> {
 public:
  explicit KLDivLoss(const KlDivOptions& options = {}) : options_(options) {}
  Var forward(const Var& input, const Var& target) const { return kl_div(input, target, options_); }

 private:
  KlDivOptions options_;
};

class CrossEntropyLoss : public ModuleOf<CrossEntropyLoss> {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {}) : options_(options) {}
  Var forward(const Var& logits, const Var& target) const { return cross_entropy(logits, target, options_); }

 private:
  CrossEntropyOptions options_;
};

class NLLLoss : public ModuleOf<NLLLoss> {
 public:
  explicit NLLLoss(const CrossEntropyOptions& options = {}) : options_(options) {}
  Var forward(const Var& input, const Tensor& labels) const { return nll_loss(input, labels, options_); }

 private:
  CrossEntropyOptions options_;
};

class CosineEmbeddingLoss : public ModuleOf<CosineEmbeddingLoss> {
 public:
  explicit CosineEmbeddingLoss(double margin = 0, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  Var forward(const Var& a, const Var& b, const Tensor& target) const {
    return cosine_embedding_loss(a, b, target, margin_, reduction_);
  }

 private:
  double margin_;
  Reduction reduction_;
};

class TripletMarginLoss : public ModuleOf<TripletMarginLoss> {
 public:
  explicit TripletMarginLoss(const TripletOptions& options = {}) : options_(options) {}
  Var forward(const Var& anchor, const Var& positive, const Var& negative) const {
    return triplet_margin_loss(anchor, positive, negative, options_);
  }

 private:
  TripletOptions options_;
};

}  // namespace ashlar::nn

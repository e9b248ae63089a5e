// How near the vectors of two tensors are.
#pragma once

#include "ashlar/ad.h"
#include "nn/module.h"

namespace ashlar::nn {

/// a·b / (|a| |b|) along an axis, each norm at least eps, as torch.nn.CosineSimilarity.
class CosineSimilarity : public ModuleOf<CosineSimilarity> {
 public:
  explicit CosineSimilarity(int64_t axis = 1, double eps = 1e-8) : axis_(axis), eps_(eps) {}
  Var forward(const Var& a, const Var& b) const { return ad::cosine_similarity(a, b, axis_, eps_); }

 private:
  int64_t axis_;
  double eps_;
};

/// (Σ |a - b + eps|^p)^(1/p) along the last axis, as torch.nn.PairwiseDistance.
class PairwiseDistance : public ModuleOf<PairwiseDistance> {
 public:
  explicit PairwiseDistance(double p = 2, double eps = 1e-6, bool keepdim = false)
      : p_(p), eps_(eps), keepdim_(keepdim) {}
  Var forward(const Var& a, const Var& b) const { return ad::pairwise_distance(a, b, p_, eps_, keepdim_); }

 private:
  double p_, eps_;
  bool keepdim_;
};

}  // namespace ashlar::nn

// Normalisation by the neighbouring channels.
#pragma once

#include "ashlar/ad.h"
#include "nn/module.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

/// x[c] / (k + alpha / size · Σ x[c']²)^beta over the `size` channels around c, of which those outside count as 0
/// (Krizhevsky et al. 2012, and torch.nn.LocalResponseNorm); of an even size one more lies before c than behind.
class LocalResponseNorm : public ModuleOf<LocalResponseNorm> {
 public:
  /// Throws ValueError unless size is positive.
  explicit LocalResponseNorm(int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1)
      : size_(size), alpha_(alpha), beta_(beta), k_(k) {
    if (size <= 0) throw ValueError("LocalResponseNorm", "size = " + std::to_string(size), "1 or more", "Try 5");
  }

  /// x [n, c, sizes…], one size at least; ShapeError otherwise.
  Var forward(const Var& x) const { return ad::local_response_norm(x, size_, alpha_, beta_, k_); }
  std::string details() const override { return "of " + std::to_string(size_) + " channels"; }

 private:
  int64_t size_;
  double alpha_, beta_, k_;
};

}  // namespace ashlar::nn

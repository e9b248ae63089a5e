// Normalisation by the neighbouring channels.
#pragma once

#include "ashlar/ad.h"
#include "ashlar/var_arithmetic.h"
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
  Var forward(const Var& x) const {
    if (x.rank() < 3) {
      throw ShapeError("LocalResponseNorm", x.value().str(), "[n, channels, sizes…]", "Reshape it");
    }
    if (x.numel() == 0) return x;
    const int64_t n = x.size(0), channels = x.size(1), places = x.numel() / n / channels;
    const Var squares = ad::square(x).reshape({n, 1, channels, places});
    const Var padded = ad::pad(squares, Shape{0, 0, size_ / 2, (size_ - 1) / 2});
    const Var means = ad::avg_pool2d(padded, Shape{size_, 1}, Shape{1, 1}, Shape{0, 0}).reshape(x.shape());
    return ad::div(x, ad::pow(ad::affine(means, alpha_, k_), beta_));
  }
  std::string details() const override { return "of " + std::to_string(size_) + " channels"; }

 private:
  int64_t size_;
  double alpha_, beta_, k_;
};

}  // namespace ashlar::nn

// Activation functions as modules.
//
// `kEpilogue` names the activation that kernels with an epilogue (matmul) can compute in the same launch. It is how
// Sequential knows what it may fuse; a class without it runs by itself.
#pragma once

#include <string>
#include <tuple>

#include "ashlar/ad.h"
#include "ashlar/var_arithmetic.h"
#include "nn/init.h"
#include "nn/module.h"
#include "runtime/forms/forms.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

/// An operator of x as a module, with numbers that it is made with.
template <class Derived, auto kOperator, class... Numbers>
class Pointwise : public ModuleOf<Derived> {
 public:
  explicit Pointwise(Numbers... numbers) : numbers_(numbers...) {}
  Var forward(const Var& x) const {
    return std::apply([&](const auto&... number) { return kOperator(x, number...); }, numbers_);
  }

 private:
  std::tuple<Numbers...> numbers_;
};

/// max(x, 0)
class ReLU : public Pointwise<ReLU, ad::relu> {
 public:
  static constexpr Activation kEpilogue = Activation::relu;
};
/// x · Φ(x), the way the kernel `gelu` computes it
class GELU : public Pointwise<GELU, ad::gelu> {
 public:
  static constexpr Activation kEpilogue = Activation::gelu;
};
/// x · sigmoid(x)
class SiLU : public Pointwise<SiLU, ad::silu> {};
/// x · tanh(ln(1 + exp(x)))
class Mish : public Pointwise<Mish, ad::mish> {};
class Tanh : public Pointwise<Tanh, ad::tanh> {};
/// 1 / (1 + exp(-x))
class Sigmoid : public Pointwise<Sigmoid, ad::sigmoid> {};
/// min(max(x, 0), 6)
class ReLU6 : public Pointwise<ReLU6, ad::relu6> {};
/// s (x, where x ≤ 0 α (exp(x) - 1)), which keeps mean 0 and variance 1 (Klambauer et al. 2017)
class SELU : public Pointwise<SELU, ad::selu> {};
/// x · min(max(x + 3, 0), 6) / 6
class Hardswish : public Pointwise<Hardswish, ad::hardswish> {};
/// min(max(x + 3, 0), 6) / 6
class Hardsigmoid : public Pointwise<Hardsigmoid, ad::hardsigmoid> {};
/// -ln(1 + exp(-x))
class LogSigmoid : public Pointwise<LogSigmoid, ad::logsigmoid> {};
/// x / (1 + |x|)
class Softsign : public Pointwise<Softsign, ad::softsign> {};
/// x - tanh(x)
class Tanhshrink : public Pointwise<Tanhshrink, ad::tanhshrink> {};
/// GELU's approximation by tanh: torch.nn.GELU(approximate="tanh")
class GELUTanh : public Pointwise<GELUTanh, ad::gelu_tanh> {};
/// x, where x < 0 slope x
class LeakyReLU : public Pointwise<LeakyReLU, ad::leaky_relu, double> {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : Pointwise(negative_slope) {}
};
/// x, where x ≤ 0 alpha (exp(x) - 1)
class ELU : public Pointwise<ELU, ad::elu, double> {
 public:
  explicit ELU(double alpha = 1) : Pointwise(alpha) {}
};
/// x, where x ≤ 0 alpha (exp(x / alpha) - 1)
class CELU : public Pointwise<CELU, ad::celu, double> {
 public:
  explicit CELU(double alpha = 1) : Pointwise(alpha) {}
};
/// x, where |x| ≤ lambd 0
class Hardshrink : public Pointwise<Hardshrink, ad::hardshrink, double> {
 public:
  explicit Hardshrink(double lambd = 0.5) : Pointwise(lambd) {}
};
/// x moved towards 0 by lambd, which it doesn't pass
class Softshrink : public Pointwise<Softshrink, ad::softshrink, double> {
 public:
  explicit Softshrink(double lambd = 0.5) : Pointwise(lambd) {}
};
/// min_val where x is less, max_val where it is more
class Hardtanh : public Pointwise<Hardtanh, ad::hardtanh, double, double> {
 public:
  explicit Hardtanh(double min_val = -1, double max_val = 1) : Pointwise(min_val, max_val) {}
};
/// ln(1 + exp(beta x)) / beta, x itself where beta x > threshold
class Softplus : public Pointwise<Softplus, ad::softplus, double, double> {
 public:
  explicit Softplus(double beta = 1, double threshold = 20) : Pointwise(beta, threshold) {}
};

/// x where it is more than the threshold or NaN, else the value
class Threshold : public ModuleOf<Threshold> {
 public:
  Threshold(double threshold, double value) : threshold_(threshold), value_(value) {}
  Var forward(const Var& x) const { return ad::threshold(x, threshold_, value_); }

 private:
  double threshold_, value_;
};

/// An operator along an axis as a module.
template <class Derived, Var (*kOperator)(const Var& x, int64_t axis)>
class AlongAxis : public ModuleOf<Derived> {
 public:
  explicit AlongAxis(int64_t axis = -1) : axis_(axis) {}
  Var forward(const Var& x) const { return kOperator(x, axis_); }
  std::string details() const override { return "axis " + std::to_string(axis_); }

 private:
  int64_t axis_;
};

/// exp(x) / Σ exp(x) along an axis
class Softmax : public AlongAxis<Softmax, ad::softmax> {
  using AlongAxis::AlongAxis;
};
/// x - ln Σ exp(x) along an axis
class LogSoftmax : public AlongAxis<LogSoftmax, ad::log_softmax> {
  using AlongAxis::AlongAxis;
};
/// a sigmoid(b), a and b being the halves of x along an axis (Dauphin et al. 2017)
class GLU : public AlongAxis<GLU, ad::glu> {
  using AlongAxis::AlongAxis;
};
/// softmax(-x) along an axis
class Softmin : public ModuleOf<Softmin> {
 public:
  explicit Softmin(int64_t axis = -1) : axis_(axis) {}
  Var forward(const Var& x) const { return ad::softmin(x, axis_); }
  std::string details() const override { return "axis " + std::to_string(axis_); }

 private:
  int64_t axis_;
};

/// exp(x) / Σ exp(x) over the channels of [n, c, h, w] or [c, h, w]
class Softmax2d : public ModuleOf<Softmax2d> {
 public:
  /// Throws ShapeError on another rank.
  Var forward(const Var& x) const {
    if (x.rank() != 3 && x.rank() != 4) {
      throw ShapeError("Softmax2d", x.value().str(), "[n, channels, height, width], or without n",
                       "Softmax takes an axis of any tensor");
    }
    return ad::softmax(x, -3);
  }
};

/// x, where x ≤ 0 weight x: parameter "weight" [num_parameters], one or one of each channel (axis 1), at first `init`
/// (He et al. 2015, and torch.nn.PReLU).
class PReLU : public ModuleOf<PReLU> {
 public:
  explicit PReLU(int64_t num_parameters = 1, double init = 0.25, const Placement& placement = {})
      : weight_(initial_full({num_parameters}, init, placement), true) {}
  Var forward(const Var& x) const { return ad::prelu(x, weight_); }
  const Var& weight() const { return weight_; }

 protected:
  void members(Members& members) override { members.parameter("weight", weight_); }

 private:
  Var weight_;
};

/// x itself, where a container wants a module
class Identity : public ModuleOf<Identity> {
 public:
  Var forward(const Var& x) const { return x; }
};

}  // namespace ashlar::nn

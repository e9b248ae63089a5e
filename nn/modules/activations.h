// Activation functions as modules without parameters.
//
// `kEpilogue` names the activation that kernels with an epilogue (matmul) can compute in the same launch. It is how
// Sequential knows what it may fuse; a class without it runs by itself.
#pragma once

#include "ashlar/ad.h"
#include "nn/module.h"
#include "runtime/forms/forms.h"

namespace ashlar::nn {

/// max(x, 0)
class ReLU : public ModuleOf<ReLU> {
 public:
  static constexpr Activation kEpilogue = Activation::relu;
  Var forward(const Var& x) const { return ad::relu(x); }
};

/// x · Φ(x), the way the kernel `gelu` computes it
class GELU : public ModuleOf<GELU> {
 public:
  static constexpr Activation kEpilogue = Activation::gelu;
  Var forward(const Var& x) const { return ad::gelu(x); }
};

/// x · sigmoid(x)
class SiLU : public ModuleOf<SiLU> {
 public:
  Var forward(const Var& x) const { return ad::silu(x); }
};

class Tanh : public ModuleOf<Tanh> {
 public:
  Var forward(const Var& x) const { return ad::tanh(x); }
};

/// 1 / (1 + exp(-x))
class Sigmoid : public ModuleOf<Sigmoid> {
 public:
  Var forward(const Var& x) const { return ad::sigmoid(x); }
};

/// exp(x) / Σ exp(x) along an axis
class Softmax : public ModuleOf<Softmax> {
 public:
  explicit Softmax(int64_t axis = -1) : axis_(axis) {}
  Var forward(const Var& x) const { return ad::softmax(x, axis_); }
  std::string details() const override { return "axis " + std::to_string(axis_); }

 private:
  int64_t axis_;
};

/// x - ln Σ exp(x) along an axis
class LogSoftmax : public ModuleOf<LogSoftmax> {
 public:
  explicit LogSoftmax(int64_t axis = -1) : axis_(axis) {}
  Var forward(const Var& x) const { return ad::log_softmax(x, axis_); }
  std::string details() const override { return "axis " + std::to_string(axis_); }

 private:
  int64_t axis_;
};

/// x itself, where a container wants a module
class Identity : public ModuleOf<Identity> {
 public:
  Var forward(const Var& x) const { return x; }
};

}  // namespace ashlar::nn

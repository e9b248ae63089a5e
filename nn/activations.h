// Activation functions as modules without parameters.
#pragma once

#include "ashlar/ad.h"
#include "nn/module.h"

namespace ashlar::nn {

/// max(x, 0)
class ReLU : public Module {
 public:
  Var forward(const Var& x) override { return ad::relu(x); }
};

/// x · Φ(x), the way the kernel `gelu` computes it
class GELU : public Module {
 public:
  Var forward(const Var& x) override { return ad::gelu(x); }
};

/// x · sigmoid(x)
class SiLU : public Module {
 public:
  Var forward(const Var& x) override { return ad::silu(x); }
};

class Tanh : public Module {
 public:
  Var forward(const Var& x) override { return ad::tanh(x); }
};

/// 1 / (1 + exp(-x))
class Sigmoid : public Module {
 public:
  Var forward(const Var& x) override { return ad::sigmoid(x); }
};

}  // namespace ashlar::nn

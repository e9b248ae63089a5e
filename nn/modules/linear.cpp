#include "nn/modules/linear.h"

#include <string>

#include "ashlar/ad.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options) {
  if (in <= 0 || out <= 0) {
    throw ValueError("Linear", std::to_string(in) + " inputs and " + std::to_string(out) + " outputs",
                     "positive numbers of both", "Pass the last dimension of x as `in`");
  }
  draw({out, in}, out, in, options);
}

Linear::Linear(const Var& weight, const Var& bias) : WeightAndBias(weight, bias) {
  if (weight.rank() == 2 && (!bias.defined() || bias.shape() == Shape{weight.size(0)})) return;
  throw ShapeError("Linear", weight.value().str() + (bias.defined() ? " and " + bias.value().str() : ""),
                   "a weight [out, in] and a bias [out]", "Transpose or reshape them");
}

Var Linear::forward(const Var& x, Activation activation) const {
  return ad::matmul(x, weight_, {.transpose_b = true, .activation = activation}, bias_);
}

}  // namespace ashlar::nn

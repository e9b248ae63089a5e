#include "nn/modules/linear.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "ashlar/ad.h"
#include "autograd/grad_mode.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

bool goes_onto_the_tape(std::initializer_list<Var> inputs) {
  return grad_enabled() &&
         std::ranges::any_of(inputs, [](const Var& input) { return input.defined() && input.requires_grad(); });
}

}  // namespace

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
  const auto product = [&](Activation fused) {
    return ad::matmul(x, weight_, {.transpose_b = true, .activation = fused}, bias_);
  };
  // GELU's gradient needs what GELU was given: kept, it takes memory; matmul's own takes the product once more.
  const bool is_apart = activation == Activation::gelu && goes_onto_the_tape({x, weight_, bias_});
  return is_apart ? ad::gelu(product(Activation::none)) : product(activation);
}

}  // namespace ashlar::nn

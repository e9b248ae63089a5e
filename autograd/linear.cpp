#include "autograd/linear.h"

#include <utility>
#include <vector>

#include "ashlar/ops.h"
#include "autograd/node.h"
#include "autograd/recipes/matmul.h"

namespace ashlar::ad {

Var linear(const Var& x, const Var& weight, const Var& bias, Activation activation) {
  MatmulOptions options{.transpose_b = true, .activation = activation};
  if (bias.defined()) options.bias = bias.value();
  Tensor y = matmul(x.value(), weight.value(), options);
  // The options keep the bias only for its shape: it isn't read again, so it may be changed before backward().
  auto backward = [options, x_ = save(x), weight_ = save(weight),
                   y_ = save(activation == Activation::relu ? y : Tensor())](const Tensor& dy, Needs needs) {
    std::vector<Tensor> gradients =
        recipes::matmul_grad(dy, x_.get(), weight_.get(), y_.get(), options, needs);
    gradients.resize(3);
    return gradients;
  };
  return record("linear", {x, weight, bias}, std::move(y), std::move(backward));
}

}  // namespace ashlar::ad

#include "autograd/recipes/layer_chain.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/composition.h"
#include "autograd/recipes/values.h"
#include "operators/composed/layer_chain.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

/// x and the layers' weights and biases, those of a third undefined where there are two. In f32, as the operator.
Var layer_by_layer(const std::vector<Var>& inputs, ChainActivation f, bool activate_last) {
  const size_t count = inputs[5].defined() ? 3 : 2;
  Var y = inputs[0].to(DType::f32);
  for (size_t i = 0; i < count; i++) {
    y = matmul(y, inputs[2 * i + 1].to(DType::f32), {.transpose_b = true}, inputs[2 * i + 2].to(DType::f32));
    if (activate_last || i + 1 < count) y = composed::activated(f, y);
  }
  return y.to(inputs[0].dtype());
}

}  // namespace

template <class T>
std::vector<T> layer_chain_grad(const T& dy, const T& x, const T& weight1, const T& bias1, const T& weight2,
                                const T& bias2, const T& weight3, const T& bias3, int activation, bool activate_last,
                                Needs needs) {
  const Composition forward = [=](const std::vector<Var>& inputs) {
    return std::vector<Var>{layer_by_layer(inputs, static_cast<ChainActivation>(activation), activate_last)};
  };
  const std::vector<T> inputs{x, weight1, bias1, weight2, bias2, weight3, bias3};
  if constexpr (std::same_as<T, Var>) {
    return gradients_of_composition(forward, inputs, {dy}, needs);
  } else {
    return first_gradients_of_composition(forward, inputs, {dy}, needs);
  }
}

template std::vector<Tensor> layer_chain_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                              const Tensor&, const Tensor&, const Tensor&, int, bool, Needs);
template std::vector<Var> layer_chain_grad(const Var&, const Var&, const Var&, const Var&, const Var&, const Var&,
                                           const Var&, const Var&, int, bool, Needs);

}  // namespace ashlar::recipes

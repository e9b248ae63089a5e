// An activation of a sum with broadcasting, of a bias or a residual, in one pass: a line each.
#include "generators/binary_operator.h"

namespace ashlar::dsl {

template <class F>
bool add(const std::string& activation, const std::string& formula, F f) {
  const std::string gradient = "sum_gradients(" + activation + "_grad(dy, add(a, b)), a.shape(), b.shape(), needs)";
  return add_binary<f32, f16, bf16>("add_" + activation, formula + ", x = a + b", f, {{kAllInputs, gradient}});
}

const bool registered = add("relu", "max(x, 0)", [](auto a, auto b) { return relu(a + b); }) &&
                        add("gelu", "x/2 (1 + erf(x/√2))", [](auto a, auto b) { return gelu(a + b); }) &&
                        add("silu", "x sigmoid(x)", [](auto a, auto b) { return silu(a + b); }) &&
                        add("tanh", "tanh x", [](auto a, auto b) { return tanh(a + b); }) &&
                        add("sigmoid", "1 / (1 + e^-x)", [](auto a, auto b) { return sigmoid(a + b); });

}  // namespace ashlar::dsl

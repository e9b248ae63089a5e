// Activations of two operands, which are written by hand around these kernels (operators/gated.cpp): what they bring
// into shapes that broadcast.
#include "dsl/operator.h"
#include "generators/binary_operator.h"

namespace ashlar::dsl {

bool add_internal(const BinaryOperator& op) {
  return register_bound_kernel<Binary, f32>(op.name, [op](auto& kernel) {
    kernel.bind(op);
    kernel.internal();
  });
}

const bool registered =
    add_internal({"prelu_by_element", "a, where a ≤ 0 a b",
                  [](Value a, Value b) -> Value { return select(a > 0.0, a, b * a); }}) &&
    add_internal({"glu_by_element", "a sigmoid(b)", [](Value a, Value b) -> Value { return a * sigmoid(b); }}) &&
    register_operator(
        {.name = "prelu",
         .formula = "prelu(x, weight) = x, where x ≤ 0 weight x, one weight or one of each channel (axis 1)",
         .dtypes = {DType::f32},
         .inputs = {{"x"}, {"weight"}},
         .outputs = {{"y"}},
         .calls = {"prelu_by_element"},
         .gradients = {{"x", "prelu_input_grad(dy, x, weight)"}, {"weight", "prelu_weight_grad(dy, x, weight)"}}}) &&
    register_operator({.name = "glu",
                       .formula = "glu(x) = a sigmoid(b), a and b the halves of x along the axis",
                       .dtypes = {DType::f32},
                       .inputs = {{"x"}},
                       .options = {{.name = "axis", .default_value = -1}},
                       .outputs = {{"y"}},
                       .calls = {"glu_by_element"},
                       .gradients = {{"x", "glu_grad(dy, x, axis)"}}});

}  // namespace ashlar::dsl

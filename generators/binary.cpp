// The arithmetic of two tensors with broadcasting, a line each, in all dtypes that networks compute in. More is in
// binary_maths.cpp.
#include "generators/binary_operator.h"

namespace ashlar::dsl {

const std::string kExtremum = "extremum_of_two_grad(dy, a, b, y, needs)";

const bool registered =
    add_binary<f32, f16, bf16, f64, i64>("add", "a + b", [](auto a, auto b) { return a + b; },
                                         {{"a", "dy"}, {"b", "dy"}}) &&
    add_binary<f32, f16, bf16, f64, i64>("sub", "a - b", [](auto a, auto b) { return a - b; },
                                         {{"a", "dy"}, {"b", "neg(dy)"}}) &&
    add_binary<f32, f16, bf16, f64, i64>(
        "mul", "a b", [](auto a, auto b) { return a * b; },
        {{"a", "mul_to_shape(dy, b, a.shape())"}, {"b", "mul_to_shape(dy, a, b.shape())"}}) &&
    add_binary<f32, f16, bf16, f64>("div", "a / b", [](auto a, auto b) { return a / b; },
                                    {{"a", "div_to_shape(dy, b, a.shape())"}, {"b", "divisor_grad(dy, a, b)"}}) &&
    add_binary<f32, f16, bf16, f64, i64>("maximum", "max(a, b)", [](auto a, auto b) { return max(a, b); },
                                         {{kAllInputs, kExtremum}}) &&
    add_binary<f32, f16, bf16, f64, i64>("minimum", "min(a, b)", [](auto a, auto b) { return min(a, b); },
                                         {{kAllInputs, kExtremum}}) &&
    add_binary<f32, f16, bf16, f64>("equal", "1 if a = b, else 0",
                                    [](auto a, auto b) { return select(a == b, 1.0, 0.0); },
                                    {{kAllInputs, kZeroGradient}});

}  // namespace ashlar::dsl

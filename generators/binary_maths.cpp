// Element-wise mathematics of two tensors with broadcasting, a line each: f32 instances alone, through which calls of
// 16-bit floats go with the same bits, and i64's where integers have such an operation.
#include "generators/binary_operator.h"

namespace ashlar::dsl {

// a - trunc(a / b) b, with the sign of a; of integers 0 where b is 0
Value truncated_rest(const Value& a, const Value& b) {
  if (a.type().is_float()) return fmod(a, b);
  const Value rest = a % b;
  return select(rest != 0 && (a < 0) != (b < 0), rest - b, rest);
}

const bool maths =
    add_binary<f32, i64>("pow", "a^b", [](auto a, auto b) { return pow(a, b); },
                         {{"a", "pow_base_grad(dy, a, b)"}, {"b", "pow_exponent_grad(dy, a, b)"}}) &&
    add_binary<f32, i64>("fmod", "a - trunc(a / b) b", [](auto a, auto b) { return truncated_rest(a, b); },
                         {{"a", "dy"}, {"b", "fmod_divisor_grad(dy, a, b)"}}) &&
    add_binary<f32, i64>("remainder", "a - floor(a / b) b", [](auto a, auto b) { return a % b; },
                         {{"a", "dy"}, {"b", "remainder_divisor_grad(dy, a, b)"}}) &&
    add_binary<f32>("atan2", "the angle of (b, a) to the first axis", [](auto a, auto b) { return atan2(a, b); },
                    {{"a", "atan2_grad(dy, b, a, b, a.shape())"}, {"b", "neg(atan2_grad(dy, a, a, b, b.shape()))"}}) &&
    add_binary<f32>("hypot", "√(a² + b²)", [](auto a, auto b) { return hypot(a, b); },
                    {{"a", "hypot_grad(dy, a, y)"}, {"b", "hypot_grad(dy, b, y)"}});

const bool bits =
    add_binary<i64>("bitwise_and", "a & b", [](auto a, auto b) { return a & b; }, {}) &&
    add_binary<i64>("bitwise_or", "a | b", [](auto a, auto b) { return a | b; }, {}) &&
    add_binary<i64>("bitwise_xor", "a ^ b", [](auto a, auto b) { return a ^ b; }, {}) &&
    add_binary<i64>("bitwise_left_shift", "a 2^b modulo 2^64", [](auto a, auto b) { return a << b; }, {}) &&
    add_binary<i64>("bitwise_right_shift", "floor(a / 2^b)", [](auto a, auto b) { return a >> b; }, {});

}  // namespace ashlar::dsl

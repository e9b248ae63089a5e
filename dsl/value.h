// Value: what a kernel computes with. A thin wrapper over Halide::Expr that owns the operations whose Halide versions
// lose NaN on some target (max, min, clamp, relu): argument-dependent look-up finds these and never Halide's.
#pragma once

#include <Halide.h>

#include <cmath>
#include <optional>

#include "dsl/mistake.h"

namespace ashlar::dsl {

using Halide::Expr;

/// A number in a kernel: an expression, or a constant that takes the type of what it meets.
class Value {
 public:
  Value(Expr expr) : expr_(std::move(expr)) {}
  Value(const Halide::Var& index) : expr_(index) {}
  Value(const Halide::RVar& index) : expr_(index) {}
  Value(float constant) : Value(static_cast<double>(constant)) {}
  Value(double constant) : constant_(constant), expr_(static_cast<float>(constant)) {}
  Value(int constant) : constant_(constant), expr_(constant) {}

  const Expr& expr() const { return expr_; }
  operator Expr() const { return expr_; }
  Halide::Type type() const { return expr_.type(); }
  /// This value in `type`; a constant is made in it, anything else is cast.
  Expr as(Halide::Type type) const {
    if (constant_ && !type.is_float() && std::trunc(*constant_) != *constant_) {
      mistake("the constant " + std::to_string(*constant_) +
              " meets integers, which would cut it off; compute in floats with to_float(x)");
    }
    return constant_ ? Halide::Internal::make_const(type, *constant_) : Halide::cast(type, expr_);
  }
  bool is_constant() const { return constant_.has_value(); }

 private:
  std::optional<double> constant_;
  Expr expr_;
};

namespace detail {
/// Both operands in the type of the one that is not a constant.
inline std::pair<Expr, Expr> matched(const Value& a, const Value& b) {
  if (a.is_constant() && !b.is_constant()) return {a.as(b.type()), b.expr()};
  if (b.is_constant() && !a.is_constant()) return {a.expr(), b.as(a.type())};
  return {a.expr(), b.expr()};
}
/// NaN seen by its bits: comparisons of floats with themselves are folded away on some targets.
inline Expr is_nan_bits(const Expr& x) {
  if (!x.type().is_float()) return Halide::Internal::const_false();
  if (x.type().bits() == 64) {
    return (Halide::reinterpret<uint64_t>(x) & Expr(uint64_t{0x7fffffffffffffff})) > Expr(uint64_t{0x7ff0000000000000});
  }
  return (Halide::reinterpret<uint32_t>(x) & Expr(0x7fffffffu)) > Expr(0x7f800000u);
}
/// The operand of a function that computes in floats; an integer constant becomes one. Anything else is a mistake.
inline Value float_operand(const Value& x, const char* function) {
  if (x.type().is_float()) return x;
  if (x.is_constant()) return x.as(Halide::Float(32));
  const std::string type = (x.type().is_uint() ? "u" : "i") + std::to_string(x.type().bits());
  mistake(std::string(function) + " of " + type + " values, but it computes in floats: write " + function +
          "(to_float(x)), or register float dtypes alone");
}
/// The operand of what is made of the bits of f32.
inline Value f32_operand(const Value& x, const char* function) {
  const Value value = float_operand(x, function);
  if (value.type().bits() != 32) {
    mistake(std::string(function) + " of f64 values, but it is for f32: write " + function + "(to_float(x))");
  }
  return value;
}
/// One float operation (strict_add, strict_mul, …) that is carried out as written. Halide::strict_float() says so of
/// every operation below it, which rules out fused multiply-adds in all of them.
inline Expr strictly(Halide::Internal::Call::IntrinsicOp operation, const Expr& a, const Expr& b) {
  return Halide::Internal::Call::make(a.type(), operation, {a, b}, Halide::Internal::Call::PureIntrinsic);
}
}  // namespace detail

inline Value operator+(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x + y;
}
inline Value operator-(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x - y;
}
inline Value operator*(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x * y;
}
inline Value operator/(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x / y;
}
inline Value operator-(const Value& a) { return -a.expr(); }
inline Value operator<(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x < y;
}
inline Value operator>(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x > y;
}
inline Value operator<=(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x <= y;
}
inline Value operator>=(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x >= y;
}
inline Value operator==(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x == y;
}
inline Value operator!=(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return x != y;
}
inline Value operator&&(const Value& a, const Value& b) { return a.expr() && b.expr(); }
inline Value operator||(const Value& a, const Value& b) { return a.expr() || b.expr(); }
inline Value operator!(const Value& a) { return !a.expr(); }

/// condition ? yes : no, without arithmetic on the branch not taken.
inline Value select(const Value& condition, const Value& yes, const Value& no) {
  auto [x, y] = detail::matched(yes, no);
  return Halide::select(condition.expr(), x, y);
}

inline Value is_nan(const Value& x) { return detail::is_nan_bits(x); }

// max(a, b) = a if a > b or a is NaN, else b;  NaN in either operand comes through.
inline Value max(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  if (!x.type().is_float()) return Halide::max(x, y);
  return Halide::strict_float(Halide::select(x > y || detail::is_nan_bits(x), x, y));
}
// min(a, b) = a if a < b or a is NaN, else b
inline Value min(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  if (!x.type().is_float()) return Halide::min(x, y);
  return Halide::strict_float(Halide::select(x < y || detail::is_nan_bits(x), x, y));
}
inline Value clamp(const Value& x, const Value& low, const Value& high) { return min(max(x, low), high); }
// relu(x) = 0 if x < 0, else x;  keeps NaN
inline Value relu(const Value& x) {
  return Halide::strict_float(Halide::select(x.expr() < Value(0).as(x.type()), Value(0).as(x.type()), x.expr()));
}
inline Value abs(const Value& x) { return Halide::abs(x.expr()); }
inline Value square(const Value& x) { return x * x; }
inline Value sqrt(const Value& x) { return Halide::sqrt(detail::float_operand(x, "sqrt").expr()); }
inline Value rsqrt(const Value& x) { return 1.0 / sqrt(detail::float_operand(x, "rsqrt")); }
/// `value` where the condition holds, else NaN. An OR on the bits instead of a select: a NaN constant is taken for
/// unreachable, and Halide skips the stages that a select's untaken branch needs, which leaves them undefined on
/// OpenCL.
inline Value nan_unless(const Value& condition, const Value& value) {
  const Expr mask = Halide::select(condition.expr(), Expr(uint32_t{0}), Expr(uint32_t{0x7fc00000}));
  return Halide::reinterpret<float>(Halide::reinterpret<uint32_t>(detail::f32_operand(value, "nan_unless").expr()) |
                                    mask);
}
/// `value` computed just as written: not reordered with what stands around it.
inline Value as_written(const Value& value) { return Halide::strict_float(value.expr()); }
/// a + b, not reordered with what stands around it; unlike as_written(a + b), a and b themselves may be.
inline Value sum_as_written(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  return detail::strictly(Halide::Internal::Call::strict_add, x, y);
}

Value exp(const Value& x);
Value log(const Value& x);
Value erf(const Value& x);
/// e^x for x <= 0 to 6e-6 of itself: two instructions on a GPU. For sums of exponentials below their maximum.
Value exp_below_zero(const Value& x);
/// 1/x to 1 ULP where x and 1/x are normal numbers: one instruction on CUDA.
Value reciprocal(const Value& x);
/// Φ(x) = (1 + erf(x/√2)) / 2, to 2e-7
Value normal_cdf(const Value& x);
inline Value sin(const Value& x) { return Halide::sin(detail::float_operand(x, "sin").expr()); }
inline Value cos(const Value& x) { return Halide::cos(detail::float_operand(x, "cos").expr()); }

// expm1(x) = e^x - 1;  near 0, where that cancels, the Taylor polynomial x (1 + x/2 (1 + x/3 (1 + …)))
inline Value expm1(const Value& operand) {
  const Value x = detail::float_operand(operand, "expm1");
  Value series = 1.0;
  for (int n = 9; n >= 2; n--) series = 1.0 + x * (1.0 / n) * series;
  return select(abs(x) < 0.5, x * series, exp(x) - 1.0);
}
// log1p(x) = ln(1 + x) with the rounding of 1 + x divided out (Goldberg 1991, theorem 4)
inline Value log1p(const Value& operand) {
  const Value x = detail::float_operand(operand, "log1p");
  const Expr one = Value(1).as(x.type()), rounded = Halide::strict_float(one + x.expr());
  return Halide::select(rounded == one, x.expr(),
                        Halide::strict_float(Halide::log(rounded) * (x.expr() / (rounded - one))));
}

// sigmoid(x) = 1 / (1 + e^-|x|) for x >= 0, e^-|x| / (1 + e^-|x|) below: no overflow on either side
inline Value sigmoid(const Value& operand) {
  const Value x = detail::float_operand(operand, "sigmoid");
  const Value e = exp(-abs(x));
  return select(x >= 0, 1.0, e) * reciprocal(1.0 + e);
}
// tanh(x) = sign(x) (1 - e^-2|x|) / (1 + e^-2|x|);  near 0, where that cancels, an odd polynomial of degree 9
inline Value tanh(const Value& operand) {
  const Value x = detail::float_operand(operand, "tanh");
  const Value magnitude = abs(x), e = exp(-2.0 * magnitude), s = x * x;
  const Value far = (1.0 - e) * reciprocal(1.0 + e);
  // Taylor: x - x³/3 + 2x⁵/15 - 17x⁷/315 + 62x⁹/2835;  below 0.25 the next term is under 1e-8 of the result.
  const Value near = x + x * s * (-1.0 / 3 + s * (2.0 / 15 + s * (-17.0 / 315 + s * (62.0 / 2835))));
  return select(magnitude < 0.25, near, select(x < 0, -far, far));
}
// silu(x) = x · sigmoid(x)
inline Value silu(const Value& operand) {
  const Value x = detail::float_operand(operand, "silu");
  return x * sigmoid(x);
}
// gelu(x) = x Φ(x), the exact form (Hendrycks & Gimpel 2016)
inline Value gelu(const Value& operand) {
  const Value x = detail::float_operand(operand, "gelu");
  return x * normal_cdf(x);
}

/// A float of `x`, for indices and counts.
inline Value to_float(const Value& x) { return Halide::cast<float>(x.expr()); }

}  // namespace ashlar::dsl

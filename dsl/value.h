// Value: what a kernel computes with. A thin wrapper over Halide::Expr that owns the operations whose Halide versions
// lose NaN on some target (comparisons, max, min, clamp, relu) or say nothing about some operands (shifts, division of
// integers): argument-dependent look-up finds these and never Halide's. Functions of floats are in dsl/functions/.
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
  Value(uint32_t constant) : constant_(constant), expr_(constant) {}

  const Expr& expr() const { return expr_; }
  operator Expr() const { return expr_; }
  Halide::Type type() const { return expr_.type(); }
  /// This value in `type`; a constant is made in it, anything else is cast.
  Expr as(Halide::Type type) const {
    if (constant_ && !type.is_float() && std::trunc(*constant_) != *constant_) {
      mistake("the constant " + std::to_string(*constant_) +
              " meets integers, which would cut it off; compute in floats with to_float(x)");
    }
    if (!constant_) return Halide::cast(type, expr_);
    if (type.is_float()) return Halide::Internal::make_const(type, *constant_);
    return Halide::Internal::make_const(type, static_cast<int64_t>(*constant_));
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
/// The same, in one type: as Halide's operators would convert them.
inline std::pair<Expr, Expr> comparable(const Value& a, const Value& b) {
  auto [x, y] = matched(a, b);
  Halide::Internal::match_types(x, y);
  return {x, y};
}
/// The remainder of floats (dsl/functions/rounding.cpp).
Value float_remainder(const Expr& a, const Expr& b);
/// Both operands of an operation on whole numbers.
inline std::pair<Expr, Expr> integers(const Value& a, const Value& b, const char* operation) {
  auto [x, y] = comparable(a, b);
  if (!x.type().is_int_or_uint()) mistake(std::string(operation) + " of floats, but it is for integers");
  return {x, y};
}
inline Expr zero(const Halide::Type& type) { return Halide::Internal::make_zero(type); }
inline Expr one(const Halide::Type& type) { return Halide::Internal::make_one(type); }
/// a / b and a % b of integers, rounded towards -∞; Halide's leave no negative remainder. 0 where b is 0.
inline std::pair<Expr, Expr> floor_division(const Expr& a, const Expr& b) {
  if (Halide::Internal::is_positive_const(b)) return {a / b, a % b};
  const Expr zero_of = zero(b.type()), is_none = b == zero_of, divisor = Halide::select(is_none, one(b.type()), b);
  Expr quotient = a / divisor, rest = a % divisor;
  if (a.type().is_int()) {
    const Expr differ = b < zero_of && rest != zero_of;
    quotient = Halide::select(differ, quotient - one(a.type()), quotient);
    rest = Halide::select(differ, rest + b, rest);
  }
  return {Halide::select(is_none, zero_of, quotient), rest};
}
/// A number of places to shift a `type` by, held below its width, and whether it was: as unsigned, in which a negative
/// number is beyond every width.
inline std::pair<Expr, Expr> places(const Value& n, const Halide::Type& type) {
  const Halide::Type whole = type.with_code(halide_type_uint);
  const auto width = static_cast<uint64_t>(type.bits());
  if (const auto constant = Halide::Internal::as_const_int(n.expr())) {
    const bool fits = *constant >= 0 && static_cast<uint64_t>(*constant) < width;
    const int64_t count = fits ? *constant : 0;
    return {Halide::Internal::make_const(whole, count), Halide::Internal::make_bool(fits)};
  }
  if (!n.type().is_int_or_uint()) mistake("a shift by floats, but it is for integers");
  const Expr count = Halide::cast(n.type().with_code(halide_type_uint), n.expr());
  const auto in_its_type = [&](uint64_t value) { return Halide::Internal::make_const(count.type(), value); };
  return {Halide::cast(whole, count & in_its_type(width - 1)), count < in_its_type(width)};
}
/// condition ? yes : no, decided here where it's a constant.
inline Expr chosen(const Expr& condition, const Expr& yes, const Expr& no) {
  if (Halide::Internal::is_const_one(condition)) return yes;
  return Halide::Internal::is_const_zero(condition) ? no : Halide::select(condition, yes, no);
}
/// One float operation (strict_add, strict_mul, …) that is carried out as written. Halide::strict_float() says so of
/// every operation below it, which rules out fused multiply-adds in all of them.
inline Expr strictly(Halide::Internal::Call::IntrinsicOp operation, const Expr& a, const Expr& b) {
  return Halide::Internal::Call::make(a.type(), operation, {a, b}, Halide::Internal::Call::PureIntrinsic);
}
inline Expr strictly_compared(Halide::Internal::Call::IntrinsicOp operation, const Expr& a, const Expr& b) {
  return Halide::Internal::Call::make(Halide::Bool(a.type().lanes()), operation, {a, b},
                                      Halide::Internal::Call::PureIntrinsic);
}
/// a <= b, false with NaN. Halide's strict_le is !(b < a) on CPUs.
inline Expr at_most(const Expr& a, const Expr& b) {
  using Halide::Internal::Call;
  return strictly_compared(Call::strict_lt, a, b) || strictly_compared(Call::strict_eq, a, b);
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
/// Of floats the quotient; of integers PyTorch's floor_divide: rounded towards -∞, 0 where b is 0.
inline Value operator/(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  if (x.type().is_float() || y.type().is_float()) return x / y;
  Halide::Internal::match_types(x, y);
  return detail::floor_division(x, y).first;
}
/// a - floor(a / b) b, with the sign of b, as PyTorch's remainder. Of integers 0 where b is 0; of floats exact, NaN
/// where b is 0 or a infinite (dsl/functions/rounding.h).
inline Value operator%(const Value& a, const Value& b) {
  auto [x, y] = detail::comparable(a, b);
  return x.type().is_float() ? detail::float_remainder(x, y) : Value(detail::floor_division(x, y).second);
}
inline Value operator-(const Value& a) { return -a.expr(); }

// Comparisons with NaN are false, but for !=. Halide takes a plain x >= c for !(x < c), which NaN fulfils, and compiles
// plain ones on the assumption that there is no NaN.
inline Value operator<(const Value& a, const Value& b) {
  auto [x, y] = detail::comparable(a, b);
  return x.type().is_float() ? detail::strictly_compared(Halide::Internal::Call::strict_lt, x, y) : x < y;
}
inline Value operator<=(const Value& a, const Value& b) {
  auto [x, y] = detail::comparable(a, b);
  return x.type().is_float() ? detail::at_most(x, y) : x <= y;
}
inline Value operator==(const Value& a, const Value& b) {
  auto [x, y] = detail::comparable(a, b);
  return x.type().is_float() ? detail::strictly_compared(Halide::Internal::Call::strict_eq, x, y) : x == y;
}
inline Value operator>(const Value& a, const Value& b) { return b < a; }
inline Value operator>=(const Value& a, const Value& b) { return b <= a; }
inline Value operator!=(const Value& a, const Value& b) { return !(a == b).expr(); }
inline Value operator&&(const Value& a, const Value& b) { return a.expr() && b.expr(); }
inline Value operator||(const Value& a, const Value& b) { return a.expr() || b.expr(); }
inline Value operator!(const Value& a) { return !a.expr(); }

/// condition ? yes : no, without arithmetic on the branch not taken.
inline Value select(const Value& condition, const Value& yes, const Value& no) {
  auto [x, y] = detail::matched(yes, no);
  return Halide::select(condition.expr(), x, y);
}

// Bits of integers; of truth values as logic.
inline Value operator&(const Value& a, const Value& b) {
  auto [x, y] = detail::integers(a, b, "&");
  return x & y;
}
inline Value operator|(const Value& a, const Value& b) {
  auto [x, y] = detail::integers(a, b, "|");
  return x | y;
}
inline Value operator^(const Value& a, const Value& b) {
  auto [x, y] = detail::integers(a, b, "^");
  return x ^ y;
}
inline Value operator~(const Value& a) { return ~a.expr(); }

// x << n and x >> n: n at or beyond the width, or negative, shifts all bits out (of a signed x to the right: its sign
// stays). What x << n pushes out at the top is lost.
inline Value operator<<(const Value& a, const Value& n) {
  const Expr x = detail::integers(a, a.is_constant() ? n : a, "<<").first;
  const auto [places, fits] = detail::places(n, x.type());
  return detail::chosen(fits, Halide::cast(x.type(), Halide::cast(places.type(), x) << places), detail::zero(x.type()));
}
inline Value operator>>(const Value& a, const Value& n) {
  const Expr x = detail::integers(a, a.is_constant() ? n : a, ">>").first;
  const auto [places, fits] = detail::places(n, x.type());
  const Expr sign = x.type().is_int() ? x >> (x.type().bits() - 1) : detail::zero(x.type());
  return detail::chosen(fits, x >> places, sign);
}

/// The exact product of two integers of one type, in the type of at least twice the width and at least 32 bits.
inline Value mul_wide(const Value& a, const Value& b) {
  auto [x, y] = detail::integers(a, b, "mul_wide");
  const Halide::Type wide = x.type().with_bits(std::max(32, 2 * x.type().bits()));
  if (wide.bits() > 64) mistake("mul_wide of 64-bit integers: no type holds their product");
  return Halide::cast(wide, x) * Halide::cast(wide, y);
}
/// The upper half of that product of two 32-bit integers, in their type.
inline Value mul_hi(const Value& a, const Value& b) {
  const Value product = mul_wide(a, b);
  if (product.type().bits() != 64) mistake("mul_hi is for 32-bit integers: mul_wide holds the product of shorter ones");
  return Halide::cast(product.type().with_bits(32), product.expr() >> Halide::Internal::make_const(product.type(), 32));
}

inline Value is_nan(const Value& x) { return detail::is_nan_bits(x); }

// max(a, b) = a if a > b or a is NaN, else b;  NaN in either operand comes through.
inline Value max(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  if (!x.type().is_float()) return Halide::max(x, y);
  return Halide::select((Value(y) < Value(x)).expr() || detail::is_nan_bits(x), x, y);
}
// min(a, b) = a if a < b or a is NaN, else b
inline Value min(const Value& a, const Value& b) {
  auto [x, y] = detail::matched(a, b);
  if (!x.type().is_float()) return Halide::min(x, y);
  return Halide::select((Value(x) < Value(y)).expr() || detail::is_nan_bits(x), x, y);
}
inline Value clamp(const Value& x, const Value& low, const Value& high) { return min(max(x, low), high); }
// relu(x) = x where x > 0 or NaN, else +0, also for -0
inline Value relu(const Value& x) {
  const Expr zero = Halide::cast(x.type(), 0);
  if (!x.type().is_float()) return Halide::max(x.expr(), zero);
  return Halide::select((Value(zero) < x).expr() || detail::is_nan_bits(x.expr()), x.expr(), zero);
}
/// |x|, in x's type: that of the most negative integer is itself.
inline Value abs(const Value& x) { return Halide::cast(x.type(), Halide::abs(x.expr())); }
inline Value square(const Value& x) { return x * x; }
inline Value sqrt(const Value& x) { return Halide::sqrt(detail::float_operand(x, "sqrt").expr()); }
Value rsqrt(const Value& x);
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

/// A float of `x`, for indices and counts.
inline Value to_float(const Value& x) { return Halide::cast<float>(x.expr()); }

}  // namespace ashlar::dsl

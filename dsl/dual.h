// Dual: a value with its derivative, for element-wise functions written once and differentiated forwards.
// The rules are per named function, because derivatives of the formulas themselves overflow to NaN for large |x|
// (x / (1 + e^-x) below -88, for one).
#pragma once

#include "dsl/functions.h"

namespace ashlar::dsl {

/// v + d·ε with ε² = 0.
struct Dual {
  Value v, d;
  Dual(Value value, Value derivative) : v(std::move(value)), d(std::move(derivative)) {}
  Dual(double constant) : v(constant), d(0.0) {}
};

inline Dual operator+(const Dual& a, const Dual& b) { return {a.v + b.v, a.d + b.d}; }
inline Dual operator-(const Dual& a, const Dual& b) { return {a.v - b.v, a.d - b.d}; }
inline Dual operator-(const Dual& a) { return {-a.v, -a.d}; }
inline Dual operator*(const Dual& a, const Dual& b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
inline Dual operator/(const Dual& a, const Dual& b) { return {a.v / b.v, (a.d - a.v / b.v * b.d) / b.v}; }
inline Dual square(const Dual& a) { return a * a; }

inline Dual exp(const Dual& a) {
  const Value y = exp(a.v);
  return {y, y * a.d};
}
inline Dual log(const Dual& a) { return {log(a.v), a.d / a.v}; }
inline Dual sqrt(const Dual& a) {
  const Value y = sqrt(a.v);
  return {y, a.d / (2.0 * y)};
}
inline Dual rsqrt(const Dual& a) {
  const Value y = rsqrt(a.v);
  return {y, -0.5 * y / a.v * a.d};
}
inline Dual sin(const Dual& a) { return {sin(a.v), cos(a.v) * a.d}; }
inline Dual cos(const Dual& a) { return {cos(a.v), -sin(a.v) * a.d}; }
inline Dual abs(const Dual& a) { return {abs(a.v), select(a.v > 0, a.d, select(a.v < 0, -a.d, 0.0))}; }
// tanh' = 1 - tanh² = 4e / (1 + e)² with e = e^-2|x|, which keeps its digits where tanh is near ±1
inline Dual tanh(const Dual& a) {
  const Value e = exp(-2.0 * abs(a.v)), scale = reciprocal(1.0 + e);
  return {tanh(a.v), 4.0 * e * scale * scale * a.d};
}
// sigmoid' = s (1 - s) = e / (1 + e)² with e = e^-|x|
inline Dual sigmoid(const Dual& a) {
  const Value e = exp(-abs(a.v)), scale = reciprocal(1.0 + e);
  return {sigmoid(a.v), e * scale * scale * a.d};
}
// relu' = 1 above 0 and for NaN, else 0 (at 0 too, as in PyTorch)
inline Dual relu(const Dual& a) { return {relu(a.v), select(!(a.v <= 0), a.d, 0.0)}; }
// silu' = s + x s (1 - s)
inline Dual silu(const Dual& a) {
  const Dual s = sigmoid(a);
  return {a.v * s.v, s.v * a.d + a.v * s.d};
}
// gelu' = Φ(x) + x φ(x)
inline Dual gelu(const Dual& a) {
  const Value density = 0.39894228040143268 * exp_below_zero(-0.5 * a.v * a.v);
  return {gelu(a.v), (normal_cdf(a.v) + a.v * density) * a.d};
}

}  // namespace ashlar::dsl

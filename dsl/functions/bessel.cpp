// The same on every target; polynomials fitted for the least relative error (Lawson's algorithm: below 1.1e-8).
#include "dsl/functions/bessel.h"

#include <limits>

#include "dsl/functions/exponential.h"
#include "dsl/functions/parts.h"

namespace ashlar::dsl {

using namespace parts;

namespace {

constexpr float kFar = 8.0f, kInfinite = 100.0f;  // from where on the series in 1/x are good; and no result is a number

/// I(|x|) = near for |x| <= 8, beyond e^|x| scaled
struct Bessel {
  Expr near, scaled;
};

// I0(x) = p(x²) up to 8, and e^x q(1/x) / √x
Bessel of_order_0(const Expr& size) {
  constexpr float kNear[] = {1.0f,           0.25f,           0.0156250019f,   0.000434026966f, 6.78183051e-06f,
                             6.7802354e-08f, 4.71799821e-10f, 2.37213916e-12f, 1.00695573e-14f, 1.99134352e-17f,
                             1.35663643e-19f};
  constexpr float kScaled[] = {0.398942292f, 0.0498695858f, 0.0278987959f, 0.0337852463f, -0.0138518987f, 0.387970984f};
  const Expr held = held_within(size, 0.0f, kFar),
             inverse = div(1.0f, held_within(size, kFar, std::numeric_limits<float>::max()));
  return {polynomial(held * held, kNear), mul(polynomial(inverse, kScaled), Halide::sqrt(inverse))};
}

// I1(x) = x p(x²), and e^x q(1/x) / √x
Bessel of_order_1(const Expr& size) {
  constexpr float kNear[] = {0.5f,
                             0.0625f,
                             0.00260416674f,
                             5.42534181e-05f,
                             6.78177059e-07f,
                             5.65061864e-09f,
                             3.36822549e-11f,
                             1.48711786e-13f,
                             5.52532138e-16f,
                             1.05284314e-18f,
                             5.96729427e-21f};
  constexpr float kScaled[] = {0.398942292f,   -0.149605453f,  -0.0465757735f,
                               -0.0461562425f, 0.00969817117f, -0.452376097f};
  const Expr held = held_within(size, 0.0f, kFar),
             inverse = div(1.0f, held_within(size, kFar, std::numeric_limits<float>::max()));
  return {mul(held, polynomial(held * held, kNear)), mul(polynomial(inverse, kScaled), Halide::sqrt(inverse))};
}

Expr unscaled(const Expr& size, const Bessel& parts) {
  const auto [k, power] = exponential(held_within(size, 0.0f, kInfinite));
  return choose_bits(is_infinite(size), kInfinity,
                     Halide::select(less(kFar, size), times_power(mul(parts.scaled, power), k), parts.near));
}
Expr scaled_down(const Expr& size, const Bessel& parts) {
  const Expr power = exp(Value(-held_within(size, 0.0f, kFar))).expr();
  return choose_bits(is_infinite(size), 0, Halide::select(less(kFar, size), parts.scaled, mul(parts.near, power)));
}

}  // namespace

Value i0(const Value& value) {
  const Expr x = detail::f32_operand(value, "i0").expr(), size = magnitude(x);
  return nan_from(x, unscaled(size, of_order_0(held_within(size, 0.0f, kInfinite))));
}
Value i0e(const Value& value) {
  const Expr x = detail::f32_operand(value, "i0e").expr(), size = magnitude(x);
  return nan_from(x, scaled_down(size, of_order_0(size)));
}
Value i1(const Value& value) {
  const Expr x = detail::f32_operand(value, "i1").expr(), size = magnitude(x);
  return nan_from(x, with_sign(unscaled(size, of_order_1(held_within(size, 0.0f, kInfinite))), x));
}
Value i1e(const Value& value) {
  const Expr x = detail::f32_operand(value, "i1e").expr(), size = magnitude(x);
  return nan_from(x, with_sign(scaled_down(size, of_order_1(size)), x));
}

}  // namespace ashlar::dsl

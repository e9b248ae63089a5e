// The same polynomials on every target; all fitted for the least relative error (Lawson's algorithm).
#include "dsl/functions/trigonometric.h"

#include "dsl/functions/parts.h"
#include "dsl/functions/rounding.h"

namespace ashlar::dsl {

using namespace parts;

namespace {

constexpr float kHalfPi = 1.57079637f, kHalfPiRest = -4.37113883e-8f, kPi = 3.14159274f, kPiRest = -8.74227766e-8f;

/// |x| = quadrant π/2 + rest, |rest| <= π/4
struct Reduced {
  Expr quadrant;  ///< modulo 4, unsigned
  Expr rest;
};

// Payne and Hanek 1983, in integers. |x| = M 2^E with M of 24 bits. Of 2/π the 96 bits are taken that follow those by
// which M 2^E is multiplied to multiples of 4; the product, modulo 2^96, then has the quadrant in its upper two bits
// and the turn's fraction below, of which 62 bits are used: no f32 is nearer than 2^-31 to a multiple of π/2. Below π/4
// x is its own rest.
Reduced reduced(const Expr& x) {
  // Bits of 2/π behind a word of zeros, which small exponents reach into.
  constexpr uint32_t kTwoOverPi[] = {0,           0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                     0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
  const Expr size = magnitude_bits(x);
  const Expr mantissa = (size & word(0x7fffff)) | word(0x800000);
  const Expr start = Halide::cast<uint32_t>(Halide::max(Halide::cast<int32_t>(size >> 23) - 120, 0));
  const Expr first = start >> 5, shift = start & word(31);
  const auto table_word = [&](int i) {
    Expr result = word(kTwoOverPi[4 + i]);
    for (int w = 3; w >= 0; w--)
      result = Halide::select(first == word(static_cast<uint32_t>(w)), word(kTwoOverPi[w + i]), result);
    return result;
  };
  const Expr t[] = {table_word(0), table_word(1), table_word(2), table_word(3)};
  const auto window = [&](int i) { return (t[i] << shift) | ((t[i + 1] >> 1) >> (word(31) - shift)); };
  const auto wide = [](const Expr& e) { return Halide::cast<uint64_t>(e); };
  const Expr thirty_two = Halide::Internal::make_const(Halide::UInt(64), 32);
  const Expr low = wide(mantissa) * wide(window(2));
  const Expr middle = wide(mantissa) * wide(window(1)) + (low >> thirty_two);
  const Expr high = mantissa * window(0) + Halide::cast<uint32_t>(middle >> thirty_two);
  const Expr next = Halide::cast<uint32_t>(middle);
  // As a signed number the fraction is in [-½, ½), and rounds the quadrant.
  const Expr fraction = (high << 2) | (next >> 30);
  const Expr quadrant = ((high >> 30) + (fraction >> 31)) & word(3);
  const Expr turn = add(mul(Halide::cast<float>(Halide::reinterpret<int32_t>(fraction)), 0x1p-32f),
                        mul(Halide::cast<float>(Halide::reinterpret<int32_t>((next << 2) >> 1)), 0x1p-63f));
  const Expr rest = add(mul(turn, kHalfPi), mul(turn, kHalfPiRest));
  const Expr is_small = size < word(0x3f490fdbu);
  return {Halide::select(is_small, word(0), quadrant), Halide::select(is_small, magnitude(x), rest)};
}

Expr sine_near_zero(const Expr& x, const Expr& square) {
  constexpr float kSeries[] = {-0.166666552f, 0.008332178f, -0.000195172135f};
  return x + x * square * polynomial(square, kSeries);
}
Expr cosine_near_zero(const Expr& square) {
  constexpr float kSeries[] = {0.0416666456f, -0.00138873665f, 2.44383536e-05f};
  return add(sub(1.0f, 0.5f * square), square * square * polynomial(square, kSeries));
}

// sin(|x| + turns π/2)
Expr sine_of(const Expr& x, uint32_t turns) {
  const auto [quadrant, rest] = reduced(x);
  const Expr square = rest * rest, q = quadrant + word(turns);
  const Expr value = Halide::select((q & word(1)) == word(0), sine_near_zero(rest, square), cosine_near_zero(square));
  return real(bits(value) ^ ((q & word(2)) << 30));
}
Expr nan_beyond_reals(const Expr& x, const Expr& value) {
  return choose_bits(magnitude_bits(x) >= word(kInfinity), kNan, value);
}

// artan t for t in [0, 1]
Expr arctangent(const Expr& t) {
  constexpr float kSeries[] = {-0.333333015f, 0.199986383f,   -0.142652452f, 0.109575741f,   -0.0841945112f,
                               0.058234401f,  -0.0314555354f, 0.011064345f,  -0.00182719005f};
  const Expr square = t * t;
  return add(t, t * square * polynomial(square, kSeries));
}

// arsin x - x for |x| <= ½
Expr arcsine_rest(const Expr& x, const Expr& square) {
  constexpr float kSeries[] = {0.166667536f, 0.0749524161f, 0.0454770997f, 0.0241475906f, 0.0422186032f};
  return x * square * polynomial(square, kSeries);
}

}  // namespace

Value sin(const Value& value) {
  const Expr x = detail::float_operand(value, "sin").expr();
  if (x.type() != Halide::Float(32)) return Halide::sin(x);
  return nan_beyond_reals(x, times_sign(sine_of(x, 0), x));
}

Value cos(const Value& value) {
  const Expr x = detail::float_operand(value, "cos").expr();
  if (x.type() != Halide::Float(32)) return Halide::cos(x);
  return nan_beyond_reals(x, sine_of(x, 1));
}

// tan x = tan r, or -1 / tan r in odd quadrants
Value tan(const Value& value) {
  const Expr x = detail::float_operand(value, "tan").expr();
  if (x.type() != Halide::Float(32)) return Halide::tan(x);
  constexpr float kSeries[] = {0.333333522f,  0.133326083f,    0.054065682f,  0.021254221f,
                               0.0109043745f, 6.89008812e-06f, 0.00441521406f};
  const auto [quadrant, rest] = reduced(x);
  const Expr square = rest * rest;
  const Expr tangent = add(rest, rest * square * polynomial(square, kSeries));
  const Expr result = Halide::select((quadrant & word(1)) == word(0), tangent, div(-1.0f, tangent));
  return nan_beyond_reals(x, times_sign(result, x));
}

namespace {

/// x = n + rest with n whole and |rest| <= ½, both exact
struct HalfTurns {
  Expr is_odd;  ///< n
  Expr rest;
  Expr sine, cosine;  ///< of π|rest|
};
HalfTurns half_turns(const Expr& x) {
  const Expr n = round(Value(x)).expr(), rest = sub(x, n), size = magnitude(rest), is_near = at_most(size, 0.25f);
  const Expr is_odd = !is_zero(sub(n, mul(2.0f, trunc(Value(mul(0.5f, n))).expr())));
  // Of the first eighth: π/2 - π|rest| beyond ¼.
  const Expr part = Halide::select(is_near, size, sub(0.5f, size));
  const Expr angle = add(mul(part, kPi), mul(part, kPiRest)), square = angle * angle;
  const Expr sine = sine_near_zero(angle, square), cosine = cosine_near_zero(square);
  return {is_odd, rest, Halide::select(is_near, sine, cosine), Halide::select(is_near, cosine, sine)};
}
Expr negated_if(const Expr& condition, const Expr& x) {
  return real(bits(x) ^ Halide::select(condition, word(kSign), word(0)));
}

}  // namespace

Value sinpi(const Value& value) {
  const Expr x = detail::f32_operand(value, "sinpi").expr();
  const HalfTurns turns = half_turns(x);
  const Expr result = negated_if(turns.is_odd, times_sign(turns.sine, turns.rest));
  return nan_beyond_reals(x, choose(is_zero(turns.rest), with_sign(0.0f, x), result));
}

Value cospi(const Value& value) {
  const Expr x = detail::f32_operand(value, "cospi").expr();
  const HalfTurns turns = half_turns(x);
  const Expr is_none = magnitude_bits(turns.rest) == word(0x3f000000u);
  return nan_beyond_reals(x, choose_bits(is_none, 0, negated_if(turns.is_odd, turns.cosine)));
}

// Around 0 what πx loses where it is subnormal doesn't matter: 1 - (πx)² / 6 is 1.
Value sinc(const Value& value) {
  const Expr x = detail::f32_operand(value, "sinc").expr();
  const Expr quotient = div(sinpi(Value(x)).expr(), mul(x, kPi));
  return nan_beyond_reals(x, choose(less(magnitude(x), 1e-5f), 1.0f, quotient));
}

// arsin x = x + x³ p(x²) up to ½; beyond π/2 - 2 arsin √((1 - x) / 2)
Value asin(const Value& value) {
  const Expr x = detail::float_operand(value, "asin").expr();
  if (x.type() != Halide::Float(32)) return Halide::asin(x);
  const Expr size = magnitude(x), is_near = at_most(size, 0.5f);
  const Expr half = held_within(mul(0.5f, sub(1.0f, size)), 0.0f, 0.5f), root = Halide::sqrt(half);
  const Expr near = add(size, arcsine_rest(size, size * size));
  const Expr twice = mul(2.0f, add(root, arcsine_rest(root, half)));
  const Expr far = sub(kHalfPi, sub(twice, kHalfPiRest));
  const Expr result = with_sign(Halide::select(is_near, near, far), x);
  return choose_bits(magnitude_bits(x) > word(0x3f800000u), kNan, result);
}

// arcos x = π/2 - arsin x near 0, else 2 arsin √((1 - |x|) / 2), or π less that
Value acos(const Value& value) {
  const Expr x = detail::float_operand(value, "acos").expr();
  if (x.type() != Halide::Float(32)) return Halide::acos(x);
  const Expr size = magnitude(x), is_near = at_most(size, 0.5f);
  const Expr half = held_within(mul(0.5f, sub(1.0f, size)), 0.0f, 0.5f), root = Halide::sqrt(half);
  const Expr near = sub(kHalfPi, add(x, sub(arcsine_rest(x, x * x), kHalfPiRest)));
  const Expr twice = mul(2.0f, add(root, arcsine_rest(root, half)));
  const Expr far = Halide::select(is_negative(x), sub(kPi, sub(twice, kPiRest)), twice);
  return choose_bits(magnitude_bits(x) > word(0x3f800000u), kNan, Halide::select(is_near, near, far));
}

// artan x = artan t with t = |x| up to 1; beyond π/2 - artan(1 / |x|)
Value atan(const Value& value) {
  const Expr x = detail::float_operand(value, "atan").expr();
  if (x.type() != Halide::Float(32)) return Halide::atan(x);
  const Expr size = magnitude(x), is_far = less(1.0f, size);
  const Expr angle = arctangent(Halide::select(is_far, div(1.0f, size), size));
  const Expr result = Halide::select(is_far, sub(kHalfPi, sub(angle, kHalfPiRest)), angle);
  return nan_from(x, with_sign(result, x));
}

// From the angle in the first eighth: mirrored at the diagonal, at the y axis, at the x axis.
Value atan2(const Value& b, const Value& a) {
  auto [y_value, x_value] = detail::matched(b, a);
  if (y_value.type() == Halide::Float(64)) return Halide::atan2(y_value, x_value);
  const Expr y = detail::f32_operand(y_value, "atan2").expr(), x = detail::f32_operand(x_value, "atan2").expr();
  const Expr width = magnitude(x), height = magnitude(y), is_steep = less(width, height);
  const Expr larger = Halide::select(is_steep, height, width), smaller = Halide::select(is_steep, width, height);
  Expr t = choose_bits(is_zero(larger), 0, div(smaller, larger));
  t = choose_bits(is_infinite(smaller), 0x3f800000u, t);
  t = choose_bits(is_infinite(larger) && !is_infinite(smaller), 0, t);
  const Expr first = arctangent(t);
  const Expr second = Halide::select(is_steep, sub(kHalfPi, sub(first, kHalfPiRest)), first);
  const Expr third = Halide::select(is_negative(x), sub(kPi, sub(second, kPiRest)), second);
  return choose_bits(is_nan_bits(x) || is_nan_bits(y), kNan, with_sign(third, y));
}

}  // namespace ashlar::dsl

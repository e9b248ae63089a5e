// Element-wise mathematics of one tensor, a line each, as PyTorch names and defines it. Rarely called in 16 bits: f32
// instances alone, through which calls of 16-bit floats go with the same bits, and f64's or integers' where a result
// has the argument's dtype and costs little.
#include <limits>

#include "dsl/functions/gamma.h"
#include "generators/unary_operator.h"

namespace ashlar::dsl {

// x without its sign, as an integer
Value magnitude_bits(const Value& x) {
  const Halide::Type type = Halide::UInt(x.type().bits());
  const Expr sign = Halide::Internal::make_const(type, uint64_t{1} << (type.bits() - 1));
  return Expr(Halide::reinterpret(type, x.expr()) & ~sign);
}
Value infinity_bits(const Value& x) {
  const int bits = x.type().bits();
  return Halide::Internal::make_const(Halide::UInt(bits), bits == 64 ? uint64_t{0x7ff} << 52 : uint64_t{0xff} << 23);
}

// LLVM takes floats for finite, and sees a test of one in a test of these bits for equality. A strict comparison tells
// it otherwise; compiled for single elements, that alone takes NaN for equal.
Value is_infinite(Value x) {
  const Expr infinity = Halide::Internal::make_const(x.type(), std::numeric_limits<double>::infinity());
  const Expr magnitude = Halide::reinterpret(x.type(), magnitude_bits(x).expr());
  return Value(magnitude) == Value(infinity) && !(magnitude_bits(x) > infinity_bits(x));
}

// x's own value where it is a whole number already, the integers' among them
template <Value (*Round)(const Value&)>
Value whole(Value x) {
  return x.type().is_float() ? Round(x) : x;
}

const bool exponentials =
    add_unary<f32>({"exp2", "2^x", [](Value x) -> Value { return exp2(x); },
                    [](Value x) -> Value { return 0.69314718055994531 * exp2(x); },
                    "affine(exp2_grad(p, x), 0.69314718055994531, 0.0)"}) &&
    add_unary<f32>({"expm1", "e^x - 1", [](Value x) -> Value { return expm1(x); },
                    [](Value x) -> Value { return exp(x); }, "expm1_grad(p, x)"}) &&
    add_unary<f32>({"log2", "log2 x", [](Value x) -> Value { return log2(x); },
                    [](Value x) -> Value { return 1.44269504088896341 / x; }, "neg(div(log2_grad(p, x), x))"}) &&
    add_unary<f32>({"log10", "log10 x", [](Value x) -> Value { return log10(x); },
                    [](Value x) -> Value { return 0.43429448190325183 / x; }, "neg(div(log10_grad(p, x), x))"}) &&
    add_unary<f32>({"log1p", "ln(1 + x)", [](Value x) -> Value { return log1p(x); },
                    [](Value x) -> Value { return 1.0 / (1.0 + x); }, "neg(log1p_grad(log1p_grad(p, x), x))"});

const bool powers = add_unary<f32>({"reciprocal", "1/x", [](Value x) -> Value { return 1.0 / x; },
                                    [](Value x) -> Value { return -1.0 / x / x; },
                                    "affine(div(reciprocal_grad(p, x), x), -2.0, 0.0)"}) &&
                    add_unary<f32, i64>({"square", "x²", [](Value x) -> Value { return x * x; },
                                         [](Value x) -> Value { return 2.0 * x; }, "affine(p, 2.0, 0.0)"}) &&
                    add_unary<f32, f64, i64>({"abs", "|x|", [](Value x) -> Value { return abs(x); },
                                              [](Value x) -> Value { return sign(x); }, kZeroGradient});

const bool trigonometric =
    add_unary<f32>({"sin", "sin x", [](Value x) -> Value { return sin(x); }, [](Value x) -> Value { return cos(x); },
                    "neg(mul(mul(ddx, dy), sin(x)))"}) &&
    add_unary<f32>({"cos", "cos x", [](Value x) -> Value { return cos(x); }, [](Value x) -> Value { return -sin(x); },
                    "neg(mul(mul(ddx, dy), cos(x)))"}) &&
    add_unary<f32>({"tan", "tan x", [](Value x) -> Value { return tan(x); },
                    [](Value x) -> Value { return 1.0 + square(tan(x)); },
                    "mul(tan_grad(p, x), affine(tan(x), 2.0, 0.0))"}) &&
    add_unary<f32>({"asin", "arcsin x", [](Value x) -> Value { return asin(x); },
                    [](Value x) -> Value { return rsqrt((1.0 - x) * (1.0 + x)); },
                    "div(mul(asin_grad(p, x), x), affine(mul(x, x), -1.0, 1.0))"}) &&
    add_unary<f32>({"acos", "arccos x", [](Value x) -> Value { return acos(x); },
                    [](Value x) -> Value { return -rsqrt((1.0 - x) * (1.0 + x)); },
                    "div(mul(acos_grad(p, x), x), affine(mul(x, x), -1.0, 1.0))"}) &&
    add_unary<f32>({"atan", "arctan x", [](Value x) -> Value { return atan(x); },
                    [](Value x) -> Value { return 1.0 / (1.0 + x * x); },
                    "affine(mul(atan_grad(atan_grad(p, x), x), x), -2.0, 0.0)"});

const bool hyperbolic = add_unary<f32>({"sinh", "sinh x", [](Value x) -> Value { return sinh(x); },
                                        [](Value x) -> Value { return cosh(x); }, "mul(mul(ddx, dy), sinh(x))"}) &&
                        add_unary<f32>({"cosh", "cosh x", [](Value x) -> Value { return cosh(x); },
                                        [](Value x) -> Value { return sinh(x); }, "mul(mul(ddx, dy), cosh(x))"}) &&
                        add_unary<f32>({"asinh", "arsinh x", [](Value x) -> Value { return asinh(x); },
                                        [](Value x) -> Value { return rsqrt(1.0 + x * x); },
                                        "neg(div(mul(asinh_grad(p, x), x), affine(mul(x, x), 1.0, 1.0)))"}) &&
                        // Two roots, since x² - 1 is positive below -1, too.
                        add_unary<f32>({"acosh", "arcosh x", [](Value x) -> Value { return acosh(x); },
                                        [](Value x) -> Value { return rsqrt(x - 1.0) * rsqrt(x + 1.0); },
                                        "neg(div(mul(acosh_grad(p, x), x), affine(mul(x, x), 1.0, -1.0)))"}) &&
                        add_unary<f32>({"atanh", "artanh x", [](Value x) -> Value { return atanh(x); },
                                        [](Value x) -> Value { return 1.0 / ((1.0 - x) * (1.0 + x)); },
                                        "affine(mul(atanh_grad(atanh_grad(p, x), x), x), 2.0, 0.0)"});

const bool special = add_unary<f32>({"erf", "2/√π ∫₀ˣ e^-t² dt", [](Value x) -> Value { return erf(x); },
                                     [](Value x) -> Value { return 1.12837916709551257 * exp(-(x * x)); },
                                     "affine(mul(erf_grad(p, x), x), -2.0, 0.0)"}) &&
                     add_unary<f32>({"erfc", "1 - erf x", [](Value x) -> Value { return erfc(x); },
                                     [](Value x) -> Value { return -1.12837916709551257 * exp(-(x * x)); },
                                     "affine(mul(erfc_grad(p, x), x), -2.0, 0.0)"}) &&
                     add_unary<f32>({"lgamma", "ln |Γ(x)|", [](Value x) -> Value { return lgamma(x); },
                                     [](Value x) -> Value { return digamma(x); }, "digamma_grad(p, x)"}) &&
                     add_unary<f32>({"digamma", "ψ(x) = d/dx ln Γ(x)", [](Value x) -> Value { return digamma(x); },
                                     [](Value x) -> Value { return trigamma(x); }, "digamma_second(p, x)"});

const bool rounded =
    add_unary<f32, f64, i64>({"floor", "the largest whole number ≤ x", whole<floor>}) &&
    add_unary<f32, f64, i64>({"ceil", "the smallest whole number ≥ x", whole<ceil>}) &&
    add_unary<f32, f64, i64>({"round", "the nearest whole number, ties to even", whole<round>}) &&
    add_unary<f32, f64, i64>({"trunc", "x without its fraction", whole<trunc>}) &&
    add_unary<f32, f64, i64>({"sign", "-1, 0 or 1 by x's sign, 0 for NaN", [](Value x) -> Value { return sign(x); }});

struct Clamp {
  static constexpr const char *name = "clamp", *parameters = "min, max", *formula = "min(max(x, min), max)";
  static constexpr const char* second = kZeroGradient;
  struct Options {
    Scalar<float> min{"min"}, max{"max"};
  };
  static Value value(Value x, const Options& o) { return clamp(x, o.min, o.max); }
  static Value derivative(Value x, const Options& o) { return select(x < o.min || x > o.max, 0.0, 1.0); }
};

const bool clamped = add_with_options<Clamp, f32>();

struct Predicate {
  std::string name;
  std::string formula;
  Value (*holds)(Value);
};

// y[i] = whether x[i] is such a number
template <ElementType T>
class IsSuch : public Kernel<IsSuch<T>> {
 public:
  In<T, 1> x{"x"};
  Out<boolean, 1> y{"y", shape_of(x)};
  ElementwiseTunables tunables;

  void bind(const Predicate& predicate) {
    predicate_ = predicate;
    this->widest_on_cpu(std::is_same_v<T, f32> ? CodeTarget::cpu_avx2 : CodeTarget::cpu);
    this->formula(predicate.name + "(x)[i] = " + predicate.formula + ", as bool").form(Form::pointwise);
  }
  void algorithm() { y(i) = predicate_.holds(x(i)); }
  void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

 private:
  Predicate predicate_;
  Var i{"i"};
};

template <ElementType... T>
bool add_predicate(const Predicate& predicate) {
  return register_bound_kernel<IsSuch, f32, f64, T...>(predicate.name, [=](auto& kernel) { kernel.bind(predicate); });
}

const bool predicates =
    add_predicate({"isnan", "x is NaN", [](Value x) -> Value { return magnitude_bits(x) > infinity_bits(x); }}) &&
    add_predicate({"isinf", "x is ±∞", is_infinite}) &&
    add_predicate({"isfinite", "x is neither NaN nor ±∞",
                   [](Value x) -> Value { return magnitude_bits(x) < infinity_bits(x); }}) &&
    add_predicate<i64, boolean>({"logical_not", "x = 0", [](Value x) -> Value {
                                   return x.type().is_float() ? magnitude_bits(x) == 0 : x == 0;
                                 }});

// A bool is a byte of 0 or 1.
const bool bits =
    add_unary<i64, boolean>({"bitwise_not", "~x", [](Value x) -> Value { return x.type().bits() == 8 ? x ^ 1 : ~x; }});

}  // namespace ashlar::dsl
